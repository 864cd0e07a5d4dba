package pricelist

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/config"
)

func published(t *testing.T, name string) *Published {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBothPublishedListsAreReadExactly(t *testing.T) {
	t.Parallel()
	lite, dev := published(t, "litellm.json"), published(t, "modelsdev.json")
	if lite.Format != LiteLLM || dev.Format != ModelsDev {
		t.Fatalf("recognised %s and %s", lite.Format, dev.Format)
	}
	tests := []struct {
		list          *Published
		vendor, model string
		want          string // the price, or what is wrong
		notApplied    string
	}{
		{lite, "openai", "gpt-5.5", "input: 5, cached_input: 0.5, output: 30, tiers: [{above: 272000, input: 10, cached_input: 1, output: 45}]",
			"cache_read_input_token_cost_flex, input_cost_per_token_priority, regional_processing_uplift_multiplier_eu"},
		{lite, "google", "models/gemini-2.5-pro", "input: 1.25, cached_input: 0.125, output: 10, tiers: [{above: 200000, input: 2.5, cached_input: 0.125, output: 15}]",
			"search_context_cost_per_query"},
		{lite, "vertex_ai-language-models", "gemini-2.5-pro", "input: 9, output: 9", ""},
		{lite, "groq", "whisper-large-v3", "per_second: 0.00003083", ""},
		{lite, "groq", "playai-tts", "per_character: 0.00005", ""},
		{lite, "mistral", "mistral-embed", "input: 0.1, output: 0", ""},
		{lite, "aiml", "dall-e-3", "per_image: 0.052", ""},
		{lite, "openai", "both-ways", "per_second: 0.001", "output_cost_per_second"},
		{lite, "heroku", "claude-4-sonnet", "not in the list", ""},
		{lite, "openai", "none", "not in the list", ""},
		{lite, "openai", "half", "openai/half has only a part of a price", ""},
		{lite, "openai", "negative", "openai/negative.input_cost_per_token is negative", ""},
		{lite, "openai", "words", "openai/words.input_cost_per_token is not a number", ""},
		{lite, "openai", "endless", "openai/endless.input_cost_per_token is not a number that can be a price", ""},
		{lite, "openai", "fine", "openai/fine is 1.234567890123456789, which has more decimals than the 10 that are kept", ""},

		{dev, "openai", "gpt-5.5", "input: 5, cached_input: 0.5, output: 30, tiers: [{above: 272000, input: 10, cached_input: 1, output: 45}]", ""},
		{dev, "openai", "gpt-4o", "input: 2.5, cached_input: 1.25, output: 10", ""},
		{dev, "google", "gemini-2.5-flash", "input: 0.3, cached_input: 0.03, audio_input: 1, output: 2.5", ""},
		{dev, "google", "gemini-2.5-pro", "input: 1.25, cached_input: 0.125, output: 10, tiers: [{above: 200000, input: 2.5, cached_input: 0.25, output: 15}]", ""},
		{dev, "openai", "whisper-1", "input: 0, output: 0", "per_minute"},
		{dev, "openai", "no-cost", "not in the list", ""},
		{dev, "openai", "half", "openai/half has only a part of a price", ""},
		{dev, "openai", "negative", "openai/negative.cost.output is negative", ""},
		{dev, "openai", "words", "openai/words.cost.input is not a number", ""},
		{dev, "openai", "half-tier", "openai/half-tier.cost.tiers[0] lacks input or output", ""},
		{dev, "openai", "tier-by-hour", `openai/tier-by-hour.cost.tiers[0] is a tier by "hour", not by context`, ""},
		{dev, "openai", "tier-twice", "openai/tier-twice.cost.tiers[1] is a tier that is there twice", ""},
		{dev, "openai", "tier-unbound", "openai/tier-unbound.cost.tiers[0] does not say from where it is valid", ""},
	}
	for _, tt := range tests {
		t.Run(string(tt.list.Format)+" "+tt.model, func(t *testing.T) {
			t.Parallel()
			quote, err := tt.list.Find(tt.vendor, tt.model)
			got := Describe(quote.Price)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("price (-want +got):\n%s", diff)
			}
			if notApplied := strings.Join(quote.NotApplied, ", "); err == nil && notApplied != tt.notApplied {
				t.Errorf("not applied: %q, want %q", notApplied, tt.notApplied)
			}
		})
	}
}

func TestAVendorIsKnownByItsHostOnly(t *testing.T) {
	t.Parallel()
	lite, dev := published(t, "litellm.json"), published(t, "modelsdev.json")
	tests := []struct {
		list      *Published
		url, want string
	}{
		{lite, "https://api.openai.com/v1", "openai"},
		{lite, "https://generativelanguage.googleapis.com/v1beta/openai", "google"},
		{lite, "https://api.small-lab.example/v1", ""},
		{dev, "https://api.small-lab.example/v1", "small-lab"},
		{dev, "https://shared.example/a", ""},
		{dev, "http://localhost:11434/v1", ""},
		{dev, "", ""},
	}
	for _, tt := range tests {
		if got := tt.list.Vendor(tt.url); got != tt.want {
			t.Errorf("vendor of %q in %s = %q, want %q", tt.url, tt.list.Format, got, tt.want)
		}
	}
}

func TestWhatIsNoListIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                           "is not JSON",
		"[]":                         "is not JSON",
		"{":                          "is not JSON",
		`{"a": {}, "a": {}}`:         "is not JSON",
		`{}`:                         "neither",
		`{"openai": {"gpt-4o": {}}}`: "neither",
		`{"sample_spec": {"litellm_provider": "x"}}`:    "neither",
		`{"m": {"litellm_provider": "openai"}, "n": 1}`: `"n": it is not an object`,
		`{"m": {"litellm_provider": 1}}`:                `"m": litellm_provider is not text`,
		`{"openai": {"models": {"m": 1}}}`:              `"m" of "openai": it is not an object`,
		`{"openai": {"models": {}}, "other": {}}`:       `models of "other": it is not an object`,
		`{"openai": {"models": {}, "api": 1}}`:          `"openai": api is not text`,
	}
	for text, want := range tests {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

const priced = `
  east: {kind: openai, base_url: "https://api.openai.com/v1", models: {gpt-5.5: {}, gpt-4o: {input: 1, output: 1}, words: {}, none: {}}}
  local: {kind: openai, base_url: "http://127.0.0.1:1/v1", models: {gpt-4o: {}}}
  proxy: {kind: openai, base_url: "http://127.0.0.1:2/v1", models: {gpt-4o: {}}}
`

func TestAnImportTakesWhatItFindsAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	cfg := load(t, priced, "providers: {east: {none: {input: 3, output: 4}}, gone: {m: {per_image: 1}}}")
	changes := Preview(cfg, published(t, "modelsdev.json"), map[string]string{"proxy": "openai"}, "models.dev, api.json", "2026-07-02")
	got := map[string]string{}
	for _, c := range changes {
		said := Describe(c.Next.Price)
		switch {
		case errors.Is(c.Err, ErrNoVendor):
			said = "no vendor"
		case errors.Is(c.Err, ErrNotFound):
			said = "not found"
		case c.Err != nil:
			said = "not taken"
		}
		got[c.Now.Target.Provider+" "+c.Now.Target.Model] = said
	}
	want := map[string]string{
		"east gpt-5.5": "input: 5, cached_input: 0.5, output: 30, tiers: [{above: 272000, input: 10, cached_input: 1, output: 45}]",
		"east gpt-4o":  "input: 2.5, cached_input: 1.25, output: 10",
		"east words":   "not taken", "east none": "not found",
		"local gpt-4o": "no vendor",
		"proxy gpt-4o": "input: 2.5, cached_input: 1.25, output: 10",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}

	merged := Merge(cfg.PriceList(), changes)
	var file bytes.Buffer
	if err := Write(&file, merged); err != nil {
		t.Fatal(err)
	}
	back, err := config.ParsePrices("prices.yaml", file.Bytes())
	if err != nil {
		t.Fatalf("what is written cannot be read: %v\n%s", err, &file)
	}
	for _, row := range []struct{ provider, model, want, source string }{
		{"east", "gpt-5.5", want["east gpt-5.5"], "models.dev, api.json"},
		{"east", "none", "input: 3, output: 4", ""},
		{"gone", "m", "per_image: 1", ""},
		{"proxy", "gpt-4o", want["proxy gpt-4o"], "models.dev, api.json"},
	} {
		price, found := back.Find(row.provider, row.model)
		if !found || Describe(price.Price) != row.want || price.Source != row.source || (price.AsOf == "2026-07-02") != (row.source != "") {
			t.Errorf("%s %s = %+v, want %s from %q", row.provider, row.model, price, row.want, row.source)
		}
	}
	if _, found := back.Find("east", "words"); found {
		t.Error("a price that was not taken is written")
	}
	if _, found := cfg.PriceList().Find("east", "gpt-5.5"); found {
		t.Error("a merge changes the list of the configuration")
	}
}

// FuzzRead: whatever a list holds, each price that is taken from it can be
// written and read back the same, and what cannot be taken says why.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"litellm.json", "modelsdev.json"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e9, "output_cost_per_token": 1e-9}}`))
	f.Add([]byte(`{"p": {"models": {"m": {"cost": {"input": 1e5, "output": 0.1, "tiers": [{"input": 1, "output": 2, "tier": {"size": 1e3}}]}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Read(data)
		if err != nil {
			return
		}
		for key := range list.offers {
			quote, err := list.Find(key.vendor, key.model)
			if err != nil {
				if err.Error() == "" {
					t.Fatal("an error says nothing")
				}
				continue
			}
			var file bytes.Buffer
			written := config.PriceList{Providers: map[string]map[string]config.ListedPrice{"p": {"m": {Price: quote.Price}}}}
			if err := Write(&file, written); err != nil {
				t.Fatal(err)
			}
			back, err := config.ParsePrices("prices.yaml", file.Bytes())
			if err != nil {
				t.Fatalf("%v: %v\n%s", key, err, &file)
			}
			if again, _ := back.Find("p", "m"); !Same(again.Price, quote.Price) {
				t.Fatalf("%s is read back as %s", Describe(quote.Price), Describe(again.Price))
			}
			if err := exact(quote.Price).Validate(); err != nil {
				t.Fatalf("%s: %v", Describe(quote.Price), err)
			}
		}
	})
}
