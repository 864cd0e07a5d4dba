package pricelist

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// load writes a configuration of providers and a prices file that it names, and
// reads them.
func load(t *testing.T, providers, prices string) *config.Config {
	t.Helper()
	folder := t.TempDir()
	text := "auth: {mode: open}\ndatabase: {private: true}\nproviders:\n" + providers
	if prices != "" {
		text = "prices: {file: prices.yaml}\n" + text
	}
	for name, text := range map[string]string{"breakwater.yaml": text, "prices.yaml": prices} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(folder, "breakwater.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestEveryPriceOfTheBuiltInTableIsSound(t *testing.T) {
	t.Parallel()
	table, err := parseTable(tableCSV)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.models) < 60 {
		t.Errorf("%d models are priced, want 60 at least", len(table.models))
	}
	for key, listed := range table.models {
		if !listed.IsWhole() {
			t.Errorf("%v has half a price", key)
		}
		if err := exact(listed.Price).Validate(); err != nil {
			t.Errorf("%v: %v", key, err)
		}
		if listed.Source == "" || listed.AsOf == "" {
			t.Errorf("%v does not say where its price comes from", key)
		}
		if !slices.ContainsFunc(vendors, func(v vendor) bool { return v.name == key.vendor }) {
			t.Errorf("%v is of a vendor without a host, so nothing finds it", key)
		}
		for _, tier := range listed.Tiers {
			if (tier.CachedInput == nil) != (listed.CachedInput == nil) || tier.Input.LessThan(*listed.Input) || tier.Output.LessThan(*listed.Output) {
				t.Errorf("the tier of %v above %d is cheaper, or lacks what is below it", key, tier.Above)
			}
		}
		if listed.CachedInput != nil && listed.CachedInput.GreaterThan(*listed.Input) {
			t.Errorf("%v costs more cached than not", key)
		}
	}
}

func TestATableThatIsBrokenIsNamed(t *testing.T) {
	t.Parallel()
	const head = "vendor,model,above,input,cached_input,cache_write,audio_input,output,audio_output,per_second,as_of,source\n"
	tests := map[string]string{
		"a row too short":       head + "openai,m,,1\n",
		"no number":             head + "openai,m,,one,,,,1,,,2026-07-02,x\n",
		"twice":                 head + "openai,m,,1,,,,1,,,2026-07-02,x\nopenai,m,,1,,,,1,,,2026-07-02,x\n",
		"a tier without a base": head + "openai,m,5,1,,,,1,,,2026-07-02,x\n",
		"a bound of no number":  head + "openai,m,,1,,,,1,,,2026-07-02,x\nopenai,m,x,1,,,,1,,,2026-07-02,x\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseTable(text); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestAPriceIsTheConfigurationsElseTheFilesElseTheTables(t *testing.T) {
	t.Parallel()
	cfg := load(t, `
  east: {kind: openai, base_url: "https://API.openai.com/v1", models: {gpt-4o: {}, gpt-4o-mini: {}, gpt-4.1: {input: 7, output: 8}, gpt-4.1-mini: {input: 7}, no-such: {}}}
  local: {kind: openai, base_url: "http://127.0.0.1:8080/v1", models: {gpt-4o: {}, gpt-4.1: {}}}
  named: {kind: openai, base_url: "https://api.openai.com.example/v1", models: {gpt-4o: {}}}
  port: {kind: openai, base_url: "https://api.openai.com:8443/v1", models: {gpt-4o: {}}}
  other: {kind: openai, base_url: "https://api.groq.com/openai/v1", models: {gpt-4o: {}, openai/gpt-oss-20b: {}}}
  gemini: {kind: openai, base_url: "https://generativelanguage.googleapis.com/v1beta/openai", models: {models/gemini-2.5-pro: {}}}
  sim: {kind: simulated, models: {gpt-4o: {}, free: {input: 0, output: 0}}}
`, `
providers:
  east:
    gpt-4o-mini: {source: the invoice, as_of: 2026-08-01, input: 9, output: 10}
    gpt-4.1: {input: 1, output: 1}
  local:
    gpt-4.1: {input: 0, output: 0}
`)
	got := map[string]string{}
	for _, c := range Choose(cfg) {
		got[c.Target.Provider+" "+c.Target.Model] = string(c.Origin)
		if c.Half {
			got[c.Target.Provider+" "+c.Target.Model] = "half"
		}
	}
	want := map[string]string{
		"east gpt-4o": "built-in table", "east gpt-4o-mini": "prices file", "east gpt-4.1": "configuration", "east gpt-4.1-mini": "half", "east no-such": "",
		"local gpt-4o": "", "local gpt-4.1": "prices file",
		"named gpt-4o": "", "port gpt-4o": "",
		"other gpt-4o": "", "other openai/gpt-oss-20b": "built-in table",
		"gemini models/gemini-2.5-pro": "built-in table",
		"sim gpt-4o":                   "", "sim free": "configuration",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}

	prices := Prices(Choose(cfg))
	costs := []struct {
		provider, model string
		input, output   int64
		want            string // empty: unpriced
	}{
		{"east", "gpt-4o", 1000, 500, "0.0075"}, // CF-U10
		{"east", "gpt-4o-mini", 1000, 0, "0.009"},
		{"east", "gpt-4.1", 1000, 0, "0.007"},
		{"east", "gpt-4.1-mini", 1000, 0, ""},
		{"local", "gpt-4o", 1000, 0, ""},
		{"local", "gpt-4.1", 1000, 0, "0"},
		{"gemini", "models/gemini-2.5-pro", 200_000, 0, "0.25"},
		{"gemini", "models/gemini-2.5-pro", 200_001, 0, "0.5000025"},
	}
	for _, c := range costs {
		cost, priced := prices.Cost(llm.Target{Provider: c.provider, Model: c.model, Region: "default"},
			llm.Usage{Input: llm.Tokens(c.input), Output: llm.Tokens(c.output)})
		if priced != (c.want != "") || priced && !cost.Equal(decimal.RequireFromString(c.want)) {
			t.Errorf("%s/%s costs %s, %t, want %q", c.provider, c.model, cost, priced, c.want)
		}
	}
}

func TestEveryPartOfAPriceReachesTheSums(t *testing.T) {
	t.Parallel()
	cfg := load(t, `
  a:
    kind: simulated
    models:
      m: {input: 1, cached_input: 2, cache_write: 3, audio_input: 4, output: 5, reasoning: 6, audio_output: 7, per_image: 8, per_second: 9, per_character: 10, per_request: 11,
          tiers: [{above: 100, input: 12, cached_input: 13, cache_write: 14, audio_input: 15, output: 16, reasoning: 17, audio_output: 18}]}
`, "")
	prices := Prices(Choose(cfg))
	target := llm.Target{Provider: "a", Model: "m", Region: "default"}
	usage := llm.Usage{
		Input: llm.Tokens(10), Cached: llm.Tokens(2), CacheWrite: llm.Tokens(3), AudioInput: llm.Tokens(4),
		Output: llm.Tokens(10), Reasoning: llm.Tokens(2), AudioOutput: llm.Tokens(3),
		Images: llm.Tokens(2), Milliseconds: llm.Tokens(500), Characters: llm.Tokens(3),
	}
	// 1·1 + 2·2 + 3·3 + 4·4 and 5·5 + 2·6 + 3·7 tokens; 11 + 2·8 + 0.5·9 + 3·10 beside them.
	if cost, _ := prices.Cost(target, usage); !cost.Equal(decimal.RequireFromString("61.500088")) {
		t.Errorf("cost = %s, want 61.500088", cost)
	}
	usage = llm.Usage{
		Input: llm.Tokens(110), Cached: llm.Tokens(20), CacheWrite: llm.Tokens(30), AudioInput: llm.Tokens(40),
		Output: llm.Tokens(10), Reasoning: llm.Tokens(2), AudioOutput: llm.Tokens(3),
	}
	// 20·12 + 20·13 + 30·14 + 40·15 and 5·16 + 2·17 + 3·18 tokens.
	if cost, _ := prices.Cost(target, usage); !cost.Equal(decimal.RequireFromString("11.001688")) {
		t.Errorf("cost in the tier = %s, want 11.001688", cost)
	}
}

func BenchmarkBuiltIn(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		BuiltIn()
	}
}
