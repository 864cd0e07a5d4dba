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
