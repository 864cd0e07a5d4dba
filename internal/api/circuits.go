package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// Circuits reads the circuits as they are now.
type Circuits interface {
	Circuits() []breaker.Snapshot
	// Circuit returns one, or false when its key is not in use.
	Circuit(key string) (breaker.Snapshot, bool)
}

// circuitView is one circuit as operators see it. A null is not known or does
// not apply.
type circuitView struct {
	Key                 string     `json:"key"`
	Provider            string     `json:"provider"`
	Model               string     `json:"model"`
	Region              string     `json:"region"`
	State               string     `json:"state"`
	Reason              *string    `json:"reason"` // of the last transition
	Class               *string    `json:"class"`  // of the failure that opened it
	Generation          uint64     `json:"generation"`
	Since               *time.Time `json:"since"`
	RetryAfterMS        int64      `json:"retry_after_ms"` // 0 = the next call is admitted, or is a probe
	Eligible            bool       `json:"eligible"`       // open, and the next call is a probe
	Calls               uint64     `json:"calls"`          // in the window; while open, those that opened it
	Failures            uint64     `json:"failures"`
	Slow                uint64     `json:"slow"`
	FailureRate         *float64   `json:"failure_rate"`   // null below min_calls
	SlowCallRate        *float64   `json:"slow_call_rate"` // null below min_calls, and where slow calls open nothing
	ConsecutiveFailures int        `json:"consecutive_failures"`
	Rejected            uint64     `json:"rejected"`
	Policy              string     `json:"policy"`          // the profile, or circuit_breaker
	PolicyOverride      *string    `json:"policy_override"` // the pattern in breakers that chose it

	// Of a state that an operator has set: why, who, and until when; null until
	// another command.
	Note  *string    `json:"note"`
	Actor *string    `json:"actor"`
	Until *time.Time `json:"until"`
}

type circuitList struct {
	Circuits []circuitView `json:"circuits"`
}

// listCircuits serves GET /api/v1/circuits: every target that a route leads to,
// and whatever else has a circuit still.
func (a *admin) listCircuits(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	snapshot := a.Snapshot()
	list := circuitList{Circuits: []circuitView{}}
	for _, circuit := range a.allCircuits(snapshot) {
		list.Circuits = append(list.Circuits, viewCircuit(circuit, snapshot.Policy(circuit.Key)))
	}
	return sendJSON(c, http.StatusOK, list)
}

// circuitDetail is one circuit with what governs it and its latest transitions,
// newest first; null while the database is away.
type circuitDetail struct {
	circuitView
	PolicySettings policyView  `json:"policy_settings"`
	Events         []eventView `json:"events"`
}

// getCircuit serves GET /api/v1/circuits/{key}. What the circuit does now is
// known without the database.
func (a *admin) getCircuit(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	snapshot := a.Snapshot()
	circuit, target, err := a.circuit(c, snapshot)
	if err != nil {
		return err
	}
	events, err := a.latestEvents(c.Request().Context(), target)
	if err != nil {
		return err
	}
	policy := snapshot.Policy(circuit.Key)
	return sendJSON(c, http.StatusOK, circuitDetail{
		circuitView: viewCircuit(circuit, policy), PolicySettings: viewPolicy(policy), Events: events,
	})
}

// allCircuits merges two lists that are sorted by key.
func (a *admin) allCircuits(snapshot *Snapshot) []breaker.Snapshot {
	used := a.Circuits.Circuits()
	var all []breaker.Snapshot
	for _, target := range snapshot.targets() {
		key := target.Key()
		for len(used) > 0 && used[0].Key < key {
			all, used = append(all, used[0]), used[1:]
		}
		if len(used) > 0 && used[0].Key == key {
			all, used = append(all, used[0]), used[1:]
			continue
		}
		all = append(all, untouched(key))
	}
	return append(all, used...)
}

// untouched is the circuit of a target that was not called yet, or not for a
// long time: it is closed and remembers nothing.
func untouched(key string) breaker.Snapshot {
	return breaker.Snapshot{Key: key, State: breaker.Closed}
}

// circuit finds a circuit by the key in the path.
func (a *admin) circuit(c echo.Context, snapshot *Snapshot) (breaker.Snapshot, llm.Target, error) {
	key, err := pathParam(c, "key")
	if err != nil {
		return breaker.Snapshot{}, llm.Target{}, err
	}
	target, ok := llm.ParseTarget(key)
	if !ok {
		return breaker.Snapshot{}, llm.Target{}, invalidValue("key",
			"A circuit key is provider/model/region, written as one percent-encoded segment of the path.")
	}
	if circuit, ok := a.Circuits.Circuit(key); ok {
		return circuit, target, nil
	}
	for _, known := range snapshot.targets() {
		if known == target {
			return untouched(key), target, nil
		}
	}
	return breaker.Snapshot{}, llm.Target{}, notFound("There is no circuit %q; GET /api/v1/circuits lists them.", key)
}

// oneSegment makes of a path in which a circuit's key is written with its own
// slashes the one that has a route; false where it is no such path.
func oneSegment(path string) (string, bool) {
	const above = "/api/v1/circuits/"
	written, ok := strings.CutPrefix(path, above)
	if !ok {
		return "", false
	}
	key, tail := written, ""
	if at := strings.LastIndexByte(written, '/'); at >= 0 {
		last := written[at+1:]
		if last == "events" || slices.Contains(circuitActions(), breaker.Action(last)) {
			key, tail = written[:at], written[at:]
		}
	}
	if strings.Count(key, "/") < 2 { // provider/model/region
		return "", false
	}
	return above + strings.ReplaceAll(key, "/", "%2F") + tail, true
}

func viewCircuit(s breaker.Snapshot, policy Policy) circuitView {
	target, _ := llm.ParseTarget(s.Key)
	return circuitView{
		Key: s.Key, Provider: target.Provider, Model: target.Model, Region: target.Region,
		State: s.State.String(), Reason: known(s.Reason), Class: known(s.Cause),
		Generation: s.Generation, Since: knownTime(s.Since),
		RetryAfterMS: roundUp(s.RetryAfter, time.Millisecond), Eligible: s.Eligible,
		Calls: s.Calls, Failures: s.Failures, Slow: s.Slow, FailureRate: s.FailureRate, SlowCallRate: s.SlowRate, ConsecutiveFailures: s.ConsecutiveFailures, Rejected: s.Rejected,
		Policy: policy.Name, PolicyOverride: known(policy.Override),
		Note: known(s.Note), Actor: known(s.Actor), Until: knownTime(s.Until),
	}
}

// known is null for an empty word.
func known[T ~string](word T) *string {
	if word == "" {
		return nil
	}
	return new(string(word))
}

// knownTime is null for a time that is not set. The circuit keeps a monotonic
// time, of which the wall clock shows a little more or less at each look.
func knownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Round(time.Millisecond))
}
