package config

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ownPrices = `
providers:
  alpha:
    org/m1: {source: the invoice, as_of: 2026-07-02, input: 1, output: 5, tiers: [{above: 10, input: 2, output: 6}]}
    speech: {per_character: 0.000015}
`

// writePriced writes a configuration that names a prices file, and that file,
// and returns the path of the first.
func writePriced(t *testing.T, named, prices string) string {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "breakwater.yaml")
	text := "auth: {mode: open}\ndatabase: {private: true}\nprices: {file: \"" + named + "\"}\n" +
		"providers: {alpha: {kind: simulated, models: {org/m1: {}}}}\n"
	if err := os.MkdirAll(filepath.Join(folder, "lists"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{file: text, filepath.Join(folder, "lists", "own.yaml"): prices} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestAPricesFileIsReadBesideItsConfiguration(t *testing.T) {
	t.Parallel()
	file := writePriced(t, "lists/own.yaml", ownPrices)
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	price, found := c.PriceList().Find("alpha", "org/m1")
	if !found || price.Input.String() != "1" || price.Tiers[0].Output.String() != "6" || price.Source != "the invoice" || price.AsOf != "2026-07-02" {
		t.Errorf("price = %+v, %t", price, found)
	}
	if _, found := c.PriceList().Find("alpha", "m2"); found {
		t.Error("a model that is not in the file has a price from it")
	}
	if again, err := Load(file); err != nil || !c.Equal(again) {
		t.Errorf("the same files are not the same configuration (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "lists", "own.yaml"), []byte("providers: {alpha: {org/m1: {input: 2, output: 5}}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := Load(file)
	if err != nil || c.Equal(again) {
		t.Fatalf("another price is no other configuration (%v)", err)
	}
	adopted, waiting := c.Adopt(again)
	if price, _ := adopted.PriceList().Find("alpha", "org/m1"); price.Input.String() != "2" || waiting != nil {
		t.Errorf("a running process takes over %+v and lets %v wait, want the new price and nothing", price, waiting)
	}
}

func TestAFaultOfAPricesFileHasItsLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		named, prices string
		want          []string // line, path and problem of each fault
	}{
		"it is not there": {"lists/none.yaml", "", []string{"3 prices.file cannot be read: it does not exist"}},
		"it is a folder":  {"lists", "", []string{"3 prices.file cannot be read: "}},
		"nothing in it":   {"lists/own.yaml", "", []string{"1 providers is missing"}},
		"half a price":    {"lists/own.yaml", "providers:\n  alpha:\n    m1: {input: 1}\n", []string{"3 providers.alpha.m1 is not a whole price"}},
		"no price":        {"lists/own.yaml", "providers:\n  alpha:\n    m1: {source: x}\n", []string{"3 providers.alpha.m1 is not a whole price"}},
		"a bad number":    {"lists/own.yaml", "providers:\n  alpha:\n    m1: {input: 1e3, output: 1}\n", []string{"3 providers.alpha.m1.input \"1e3\" is not an amount of money"}},
		"a negative one":  {"lists/own.yaml", "providers:\n  alpha:\n    m1: {input: -1, output: 1}\n", []string{"3 providers.alpha.m1.input -1 is too small"}},
		"an unknown key":  {"lists/own.yaml", "providers:\n  alpha:\n    m1: {inputs: 1, input: 1, output: 1}\n", []string{"3 providers.alpha.m1.inputs is not a key"}},
		"half a tier":     {"lists/own.yaml", "providers: {alpha: {m1: {input: 1, output: 1, tiers: [{above: 1, input: 1}]}}}\n", []string{"1 providers.alpha.m1.tiers[0] lacks a price"}},
		"no day":          {"lists/own.yaml", "providers: {alpha: {m1: {input: 1, output: 1, as_of: July}}}\n", []string{"1 providers.alpha.m1.as_of is not a day"}},
		"two mistakes":    {"lists/own.yaml", "providers:\n  a: {m: {input: x, output: 1}}\n  b: {m: {output: 1}}\n", []string{"2 providers.a.m.input \"x\" is not an amount of money", "3 providers.b.m is not a whole price"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(writePriced(t, tt.named, tt.prices))
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("error = %v, want faults", err)
			}
			var got []string
			for i, f := range faults {
				one := strconv.Itoa(f.Line) + " " + f.Path + strings.TrimRight(" "+f.Value, " ") + " " + f.Problem
				if i < len(tt.want) && len(one) > len(tt.want[i]) {
					one = one[:len(tt.want[i])]
				}
				got = append(got, one)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

func TestAPriceIsWholeOrNot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ written, whole bool }{
		"{}":                                  {false, false},
		"{input: 0, output: 0}":               {true, true},
		"{input: 1}":                          {true, false},
		"{output: 1, per_image: 1}":           {true, false},
		"{cached_input: 1}":                   {true, false},
		"{per_image: 0}":                      {true, true},
		"{per_request: 1}":                    {true, true},
		"{input: 1, output: 1, per_image: 1}": {true, true},
	}
	for text, tt := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c, err := Parse("test.yaml", []byte("auth: {mode: open}\ndatabase: {private: true}\nproviders: {a: {kind: simulated, models: {m: "+text+"}}}"), variables)
			if err != nil {
				t.Fatal(err)
			}
			price := c.Providers["a"].Models["m"].Price
			if price.IsWritten() != tt.written || price.IsWhole() != tt.whole {
				t.Errorf("written %t, whole %t, want %+v", price.IsWritten(), price.IsWhole(), tt)
			}
		})
	}
}

// FuzzParsePrices: whatever a file holds, it gives whole prices, or faults that
// each say something.
func FuzzParsePrices(f *testing.F) {
	f.Add([]byte(ownPrices))
	f.Add([]byte("providers: {a: {m: {input: 1, output: ${X}, tiers: [{}]}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ParsePrices("prices.yaml", data)
		if err != nil {
			faults, ok := errors.AsType[Faults](err)
			if !ok || len(faults) == 0 || faults[0].Line < 1 || faults[0].Remedy == "" {
				t.Fatalf("got %T %v, want faults that say something", err, err)
			}
			return
		}
		for _, models := range list.Providers {
			for model, price := range models {
				if !price.IsWhole() {
					t.Errorf("the price of %s is not whole: %+v", model, price)
				}
			}
		}
	})
}
