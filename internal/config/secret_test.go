package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/breakwater-llm/breakwater/internal/config"
)

func TestSecretShowsItselfToNobodyWhoDoesNotAsk(t *testing.T) {
	t.Parallel()
	const text = "sk-1234567890"
	holder := struct {
		Key  config.Secret
		Also *config.Secret
		More map[string]config.Secret
	}{Key: config.NewSecret(text), More: map[string]config.Secret{"a": config.NewSecret(text)}}
	also := config.NewSecret(text)
	holder.Also = &also

	printed := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%U", "%c"} {
		printed[verb] = fmt.Sprintf(verb, holder.Key)
		printed["in a struct "+verb] = fmt.Sprintf(verb, holder)
	}
	inJSON, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := yaml.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "key", holder.Key, "holder", holder)
	slog.New(slog.NewTextHandler(&log, nil)).Info("started", "key", holder.Key, "holder", holder)
	printed["JSON"], printed["YAML"], printed["slog"] = string(inJSON), string(inYAML), log.String()
	printed["error"] = fmt.Errorf("refused %v", holder.Key).Error()

	for how, got := range printed {
		if strings.Contains(got, text) || strings.Contains(got, fmt.Sprintf("%x", text)) {
			t.Errorf("%s shows the secret: %s", how, got)
		}
	}
	for _, how := range []string{"%v", "%#v", "%d", "JSON", "YAML", "slog", "error"} {
		if !strings.Contains(printed[how], "***") {
			t.Errorf("%s shows no mask: %s", how, printed[how])
		}
	}
	if got := holder.Key.Reveal(); got != text {
		t.Errorf("revealed %q, want %q", got, text)
	}
}

func TestEmptySecretIsSeenToBeEmpty(t *testing.T) {
	t.Parallel()
	var none config.Secret
	if none.IsSet() || none.String() != "" {
		t.Errorf("got %q, set: %t, want nothing", none, none.IsSet())
	}
}

// Whoever mistakes a line of the file, or one variable for another, is told where,
// and not what stands there: it may be a secret. A value of a key that holds none is
// shown as it is written.
func TestNoFaultQuotesASecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	env := func(name string) (string, bool) { return secret, name == "KEY" }
	declared := "providers: {a: {kind: simulated, models: {m: {}}}}\n"
	for text, want := range map[string]string{
		"database:\n  url: |" + secret + " x\n":                                                                    "invalid header option",
		"database:\n  url: >" + secret + " x\n":                                                                    "invalid header option",
		"database:\n  url: \"" + secret + "\n":                                                                     "could not find end character",
		"database:\n  url: \"\\q" + secret + "\"\n":                                                                "unknown escape character 'q'",
		"database:\n  url: [" + secret + "\n":                                                                      "sequence end token ']' not found",
		"database:\n  url: postgres://u:p${" + secret + "-}@h/d\n":                                                 "database.url: has a reference that is none",
		"database:\n  url: postgres://u:1/" + secret + "@h/d\n":                                                    "database.url: is not the address of a Postgres",
		"cache: {url: \"redis://u:1#" + secret + "@h\"}\n":                                                         "cache.url: is not the address of a Valkey",
		"providers: {a: {kind: openai, base_url: \"http://u:" + secret + "@h\", models: {m: {}}}}\n":               "base_url: holds a user or password",
		"providers: {a: {kind: openai, base_url: \"http://h?key=" + secret + "\", models: {m: {}}}}\n":             "base_url: has a query",
		"server: {listen: \"${KEY}\"}\n":                                                                           "server.listen: \"${KEY}\" is not an address to listen on; write host:port, such as 127.0.0.1:8080; look at KEY",
		"log: {level: \"${KEY}\"}\n":                                                                               "log.level: \"${KEY}\" is not a value it may have; write debug, info, warn or error; look at KEY",
		"server: {listen: nowhere, metrics_token: 5}\n":                                                            "server.listen: \"nowhere\" is not an address",
		"server: {listen: nowhere, metrics_token: \"" + secret + " x\"}\n":                                         "server.metrics_token: holds a space",
		"breakers: [{match: \"a/m/*\", profile: \"${KEY}\"}]\n" + declared:                                         "profile: names by its reference something, which is not declared",
		declared + "configurations: {c: {targets: [{provider: \"${KEY}\", model: m}]}}\n":                          "provider: names by its reference something, which is not declared",
		declared + "configurations: {c: {targets: [{provider: a, model: \"${KEY}\"}]}}\n":                          "model: names by its reference something, which provider a does not declare",
		declared + "configurations: {c: {targets: [{configuration: \"${KEY}\"}]}}\n":                               "configuration: names by its reference something",
		declared + "configurations: {c: {targets: [{provider: \"${KEY}\"}]}}\n":                                    "model: is missing",
		declared + "configurations: {c: {targets: [{provider: a, model: m}], fallback_on: [\"${KEY}\"]}}\n":        "fallback_on[0]: is not a class",
		declared + "configurations: {c: {targets: [{provider: a, model: m}], context: {address: \"${KEY}:x\"}}}\n": "context.address: is not the address",
	} {
		_, err := config.Parse("breakwater.yaml", []byte("auth: {mode: open}\n"+text), env)
		switch {
		case err == nil:
			t.Errorf("%q is taken", text)
		case strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), want):
			t.Errorf("%q is refused with %q, want it to say %q and nothing secret", text, err, want)
		}
	}
}

// A key or a token may stand in the wrong place. What is long enough for one is
// not shown, wherever it stands.
func TestNoFaultQuotesWhatMayBeAMisplacedSecret(t *testing.T) {
	t.Parallel()
	const secret = "sk-6VM7EGHROFVYZ4NP"
	for text, want := range map[string]string{
		"providers: {a: {kind: " + secret + ", models: {m: {}}}}\n": "providers.a.kind: is not a value it may have",
		"server: {listen: " + secret + "}\n":                        "server.listen: is not an address",
		"server: {listen: \"${NONE:-" + secret + "}\"}\n":           "server.listen: is not an address",
		"server: {listen: \"" + secret + "${NONE:-}\"}\n":           "server.listen: is not an address",
		"circuit_breaker: {min_calls: \"" + secret + "\"}\n":        "min_calls: is not a whole number",
	} {
		_, err := config.Parse("c.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if got := fmt.Sprint(err); strings.Contains(got, secret) || !strings.Contains(got, want) {
			t.Errorf("%q: faults\n%s\nwant %q in them and no secret", text, got, want)
		}
	}
}
