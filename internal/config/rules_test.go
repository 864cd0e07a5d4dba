package config

import (
	"math"
	"reflect"
	"testing"
)

// forEachKey calls visit for every single value that the file can hold.
func forEachKey(v reflect.Value, at path, visit func(at path, f field, v reflect.Value)) {
	for _, f := range fieldsOf(v.Type()) {
		p, value := at.key(f.name), f.of(v)
		if value.Kind() == reflect.Pointer || value.Kind() == reflect.Map || value.Kind() == reflect.Slice {
			value = elementOf(value.Type().Elem())
		}
		if isLeaf(value.Type()) {
			visit(p, f, value)
			continue
		}
		forEachKey(value, p, visit)
	}
}

// Covers CFG-06: a number without a bound is a mistake in the making.
func TestEveryNumberHasABoundAndEveryKeyAWord(t *testing.T) {
	t.Parallel()
	keys := 0
	forEachKey(reflect.ValueOf(Default()).Elem(), "", func(at path, f field, v reflect.Value) {
		keys++
		if f.name == "" || f.doc == "" {
			t.Errorf("%s has no name in the file or no description", at)
		}
		if v.CanInt() || v.CanFloat() {
			if len(f.check) == 0 {
				t.Errorf("%s is a number without a bound", at)
			}
		}
		// A bound that cannot be read panics here instead of at a start.
		for _, rule := range parseRules(f.check) {
			rule.broken(v.Interface(), parseRules(f.check))
		}
	})
	if keys < 60 {
		t.Errorf("saw %d keys only", keys)
	}
}

func TestNumbersThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, jitter := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.1, 1.1} {
		c := Default()
		c.Auth.Mode, c.Database.Private = AuthOpen, true
		c.CircuitBreaker.CooldownJitter = jitter
		if err := c.Validate(); err == nil {
			t.Errorf("a jitter of %v is accepted", jitter)
		}
	}
}

func TestPathsAreWithinTheirSectionsOnly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		inner, outer path
		want         bool
	}{
		{"a.b", "", true}, {"a.b", "a", true}, {"a.b", "a.b", true}, {"a[0].b", "a", true},
		{"ab", "a", false}, {"a", "a.b", false}, {"a.b-c", "a.b", false},
		{path("models").key("gpt-4.1"), path("models").key("gpt-4"), false},
	} {
		if got := row.inner.within(row.outer); got != row.want {
			t.Errorf("%s within %s: got %t, want %t", row.inner, row.outer, got, row.want)
		}
	}
	if got := path("models").key("gpt-4.1").key("input"); got != `models."gpt-4.1".input` {
		t.Errorf("got %s, want the key in quotes", got)
	}
}

func TestSuggestionIsTheNearestWordOrAll(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "max_body", "log"}
	for word, want := range map[string]string{
		"lisetn":  `did you mean "listen"?`,
		"LISTEN":  `did you mean "listen"?`,
		"maxbody": `did you mean "max_body"?`,
		"lgo":     `did you mean "log"?`,
		"cache":   "known here: listen, max_body, log",
		"":        "known here: listen, max_body, log",
	} {
		if got := suggest(word, known); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
