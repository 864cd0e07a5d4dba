package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

// The kinds of provider.
const (
	KindOpenAI    = "openai"    // any server that speaks OpenAI's API
	KindSimulated = "simulated" // an upstream inside the gateway, for trying things out
)

// Provider is one upstream: where it is, how it is called, what it serves.
type Provider struct {
	Kind          string           `yaml:"kind" check:"required,oneof=openai|simulated" doc:"What the upstream speaks."`
	BaseURL       string           `yaml:"base_url,omitempty" doc:"Root of its API, http or https. Link-local and metadata addresses are refused."`
	APIKey        Secret           `yaml:"api_key,omitempty" check:"visible" doc:"Our credential there; empty = none is sent."`
	APIKeys       []Secret         `yaml:"api_keys,omitempty" check:"visible" doc:"Several credentials instead of one, used in turn; one that is limited or refused rests while the others serve."`
	Region        string           `yaml:"region" check:"name" doc:"Tells apart the same models in several places; made of a-z, 0-9 and -."`
	Timeouts      Timeouts         `yaml:"timeouts" doc:"The clocks of one attempt."`
	Retry         Retry            `yaml:"retry" doc:"Repeats on the same target before it counts as failed."`
	OutputLimit   string           `yaml:"output_limit,omitempty" check:"oneof=|max_tokens|max_completion_tokens" doc:"Where it looks for the longest answer, which it is told where a limit of tokens or cost holds; empty = max_completion_tokens for OpenAI's and Azure's own hosts, else max_tokens."`
	MaxConcurrent int              `yaml:"max_concurrent" check:"min=0" doc:"Attempts in flight at once; 0 = unlimited."`
	HealthCheck   HealthCheck      `yaml:"health_check" doc:"Whether the provider itself is asked from time to time, apart from calls."`
	Simulated     *Simulated       `yaml:"simulated,omitempty" doc:"How a simulated provider behaves; kind simulated only."`
	Models        map[string]Model `yaml:"models" check:"required" doc:"What may be addressed, by the upstream's own model names."`
}

func (p *Provider) setDefaults() {
	*p = Provider{
		Region:        "default",
		Timeouts:      Timeouts{Connect: 5 * time.Second, FirstToken: 2 * time.Minute, Idle: time.Minute, Total: 10 * time.Minute},
		Retry:         Retry{Max: 2, Base: 200 * time.Millisecond, MaxDelay: 5 * time.Second, Jitter: 0.2},
		MaxConcurrent: 256,
		HealthCheck:   HealthCheck{Timeout: 3 * time.Second},
	}
}

// complete gives a simulated provider its behaviour where none is written.
func (p *Provider) complete() {
	if p.Kind == KindSimulated && p.Simulated == nil {
		p.Simulated = &Simulated{}
		p.Simulated.setDefaults()
	}
}

// Timeouts are the clocks of one attempt at a provider.
type Timeouts struct {
	Connect    time.Duration `yaml:"connect" check:"over=0s" doc:"Dial and TLS."`
	FirstToken time.Duration `yaml:"first_token" check:"over=0s" doc:"Streams: until the first content; reasoning counts."`
	Idle       time.Duration `yaml:"idle" check:"over=0s" doc:"Streams: between two reads after the first content."`
	Total      time.Duration `yaml:"total" check:"over=0s" doc:"Everything else: until the whole answer is read."`
}

// LLM returns the clocks as a call carries them.
func (t Timeouts) LLM() llm.Timeouts { return llm.Timeouts(t) }

// Retry is how often and how soon the same target is asked again.
type Retry struct {
	Max      int           `yaml:"max" check:"min=0,max=10" doc:"Sends after the first; 0 = none."`
	Base     time.Duration `yaml:"base" check:"over=0s" doc:"Wait before the first repeat; it doubles each time."`
	MaxDelay time.Duration `yaml:"max_delay" check:"over=0s" doc:"Longest wait; a longer Retry-After leads to the next target."`
	Jitter   float64       `yaml:"jitter" check:"min=0,max=1" doc:"Share of a wait that is random, up or down."`
}

// Model is what a model costs and what it can take, in tokens.
type Model struct {
	Price

	ContextWindow int `yaml:"context_window,omitempty" check:"over=0,optional" doc:"Tokens of prompt and answer together; a request over it goes to other targets. Absent = any request is tried."`
	MaxOutput     int `yaml:"max_output,omitempty" check:"over=0,optional" doc:"Tokens of its longest answer."`
	MediaTokens   int `yaml:"media_tokens,omitempty" check:"over=0,optional" doc:"Most tokens that it takes one image or sound for, by which limits are held; absent = context_window, or 131072."`
}

// plainName is what providers and regions are called, so that a circuit key splits
// in one way only.
var plainName = regexp.MustCompile(`^[a-z0-9-]+$`)

func (p Provider) check(r *report, at path, called string) {
	if !r.sound(at) {
		return
	}
	if !plainName.MatchString(called) {
		r.fault(at, "is not a name for a provider", "use a-z, 0-9 and - only")
	}
	if called == llm.ContextProvider {
		r.fault(at, "is a name that the circuits of context assemblers have", "give the provider another name")
	}
	switch p.Kind {
	case KindOpenAI:
		p.checkOpenAI(r, at)
	case KindSimulated:
		p.checkSimulated(r, at)
	}
	if r.sound(at.key("retry"), at.key("retry").key("base"), at.key("retry").key("max_delay")) && p.Retry.MaxDelay < p.Retry.Base {
		r.fault(at.key("retry").key("max_delay"), "is less than base", "give it at least "+readable(p.Retry.Base))
	}
	p.HealthCheck.check(r, at.key("health_check"))
	p.checkModels(r, at.key("models"), called)
}

func (p Provider) checkOpenAI(r *report, at path) {
	if p.Simulated != nil {
		r.fault(at.key("simulated"), "has no meaning for kind openai", "remove it, or write kind: simulated")
	}
	p.checkKeys(r, at)
	if !r.sound(at.key("base_url")) {
		return
	}
	if p.BaseURL == "" {
		r.fault(at.key("base_url"), "is missing", "name the root of the API, such as https://api.openai.com/v1")
		return
	}
	if problem, remedy := refuseURL(p.BaseURL); problem != "" {
		r.fault(at.key("base_url"), problem, remedy)
	}
}

func (p Provider) checkKeys(r *report, at path) {
	list := at.key("api_keys")
	switch {
	case !r.written(list) && p.APIKeys == nil:
		return
	case r.sound(list) && len(p.APIKeys) == 0:
		r.fault(list, "is empty", "list the keys, or remove it")
	case p.APIKey.IsSet():
		r.fault(list, "stands beside api_key", "move that key into the list")
	}
	for i, key := range p.APIKeys {
		switch first := slices.Index(p.APIKeys, key); {
		case !r.sound(list.index(i)):
		case !key.IsSet():
			r.fault(list.index(i), "is empty", "give it a value, or remove it")
		case first < i:
			r.fault(list.index(i), "is the same key as "+r.place(list.index(first)), "remove one of them")
		}
	}
}

// Credentials returns the keys that are sent, in the order of the file; none
// when calls go out without one.
func (p Provider) Credentials() []string {
	if p.APIKey.IsSet() {
		return []string{p.APIKey.Reveal()}
	}
	var keys []string
	for _, key := range p.APIKeys {
		keys = append(keys, key.Reveal())
	}
	return keys
}

func (p Provider) checkSimulated(r *report, at path) {
	for key, written := range map[string]bool{"base_url": p.BaseURL != "", "api_key": p.APIKey.IsSet(), "api_keys": p.APIKeys != nil} {
		if written {
			r.fault(at.key(key), "has no meaning for kind simulated", "remove it, or write kind: openai")
		}
	}
	if p.Simulated == nil {
		r.fault(at.key("simulated"), "is missing", "say how the provider behaves")
	}
}

func (p Provider) checkModels(r *report, at path, called string) {
	if r.sound(at) && len(p.Models) == 0 {
		r.fault(at, "is missing, so nothing can address this provider", "list its models, such as `gpt-4.1-mini: {input: 0.40, output: 1.60}`")
	}
	for _, model := range sortedKeys(p.Models) {
		switch {
		case !r.sound(at.key(model)):
		case !isVisible(model):
			r.fault(at.key(model), "is not a name for a model", "use the upstream's own name, without spaces")
		case llm.Target{Provider: called, Model: model}.IsHealth():
			r.fault(at.key(model), "is the name under which health checks go", "remove it")
		}
		p.Models[model].check(r, at.key(model))
	}
}

func (m Model) check(r *report, at path) {
	m.Price.check(r, at)
	window, output := at.key("context_window"), at.key("max_output")
	if r.sound(at, window, output) && m.ContextWindow > 0 && m.MaxOutput > m.ContextWindow {
		r.fault(output, "is more than context_window, of which it is a part", "give it at most "+strconv.Itoa(m.ContextWindow))
	}
}

// isVisible reports whether text may stand in a header or a circuit key.
func isVisible(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c == unicode.ReplacementChar || unicode.IsSpace(c) || !unicode.IsPrint(c)
	})
}
