package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestUpstreamsReadWhatClientsSend(t *testing.T) {
	t.Parallel()
	letters := &writer{}
	for _, k := range kinds() {
		if k.spoil != nil {
			continue
		}
		r := letters.write(&k)
		got, err := read(r.body)
		if want := (received{id: r.id, model: k.model, stream: r.stream}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", k.name, got, err, want)
		}
		// The gateway may add at the end.
		longer := bytes.Replace(r.body, []byte(`0.2}`), []byte(`0.2,"stream_options":{"include_usage":true}}`), 1)
		if _, err := read(longer); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

func TestAlteredRequestsAreFound(t *testing.T) {
	t.Parallel()
	sent := string((&writer{}).write(&kind{model: "chat", form: stream}).body)
	for name, body := range map[string]string{
		"a letter":    strings.Replace(sent, "quick", "quack", 1),
		"a gap":       strings.Replace(sent, "brown ", "", 1),
		"a lost tail": strings.Replace(sent, `,"temperature":0.2`, "", 1),
		"half":        sent[:len(sent)/2],
		"nothing":     "",
	} {
		if _, err := read([]byte(body)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestChooseGoesByTheShares(t *testing.T) {
	t.Parallel()
	next, count := choose([]kind{{name: "rare", share: 1}, {name: "often", share: 9}}), map[string]int{}
	for range 10_000 {
		count[next().name]++
	}
	if rare := count["rare"]; rare < 800 || rare > 1200 {
		t.Errorf("%v of 10,000, want 1,000 rare ones or so", count)
	}
}
