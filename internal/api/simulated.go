package api

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"
)

// Simulation is how a simulated provider behaves.
type Simulation struct {
	Mode            string // one of SimulationModes
	Status          int    // of mode error
	RetryAfter      time.Duration
	Latency         time.Duration
	TokensPerSecond float64 // 0 = all at once
	FailureRate     float64 // 0 to 1; 0 in a mode other than ok = every call
}

// SimulationModes lists what a simulated provider can be told to do.
func SimulationModes() []string {
	return []string{"ok", "error", "hang", "reset", "rate_limit", "cut", "slow"}
}

// Simulators reads and sets how simulated providers behave.
type Simulators interface {
	// Simulation returns how a provider behaves, or false when there is no
	// simulated provider of that name.
	Simulation(provider string) (Simulation, bool)
	// Simulate changes it for all calls from now on.
	Simulate(provider string, s Simulation) error
}

// simulationView is the body of GET and PUT /api/v1/simulated/{provider}. What a
// PUT leaves out stays as it is, but for the failure rate: it belongs to the
// mode, so a change starts it anew.
type simulationView struct {
	Mode            string  `json:"mode"`
	Status          int     `json:"status"`
	RetryAfterMS    int64   `json:"retry_after_ms"`
	LatencyMS       int64   `json:"latency_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	FailureRate     float64 `json:"failure_rate"`
}

// getSimulated serves GET /api/v1/simulated/{provider}.
func (a *admin) getSimulated(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	_, s, err := a.simulation(c)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, viewSimulation(s))
}

// putSimulated serves PUT /api/v1/simulated/{provider}.
func (a *admin) putSimulated(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	provider, current, err := a.simulation(c)
	if err != nil {
		return err
	}
	view := viewSimulation(current)
	view.FailureRate = 0
	if err := decode(c, &view); err != nil {
		return err
	}
	if err := view.check(); err != nil {
		return err
	}
	if err := a.Simulators.Simulate(provider, view.simulation()); err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, view)
}

func (a *admin) simulation(c echo.Context) (provider string, s Simulation, err error) {
	provider, err = pathParam(c, "provider")
	if err != nil {
		return "", Simulation{}, err
	}
	s, ok := a.Simulators.Simulation(provider)
	if !ok {
		return "", Simulation{}, notFound("There is no simulated provider %q; only providers of kind simulated can be told how to behave.", provider)
	}
	return provider, s, nil
}

func viewSimulation(s Simulation) simulationView {
	return simulationView{
		Mode: s.Mode, Status: s.Status,
		RetryAfterMS: s.RetryAfter.Milliseconds(), LatencyMS: s.Latency.Milliseconds(),
		TokensPerSecond: s.TokensPerSecond, FailureRate: s.FailureRate,
	}
}

func (v simulationView) simulation() Simulation {
	return Simulation{
		Mode: v.Mode, Status: v.Status,
		RetryAfter: time.Duration(v.RetryAfterMS) * time.Millisecond, Latency: time.Duration(v.LatencyMS) * time.Millisecond,
		TokensPerSecond: v.TokensPerSecond, FailureRate: v.FailureRate,
	}
}

// The bounds of a simulation, so that a typing error does not become a duration
// beyond all clocks.
const (
	longest = int64(24 * time.Hour / time.Millisecond)
	fastest = 1e6
)

func (v simulationView) check() error {
	switch {
	case !slices.Contains(SimulationModes(), v.Mode):
		return invalidValue("mode", "mode is none of "+list(SimulationModes())+".")
	case v.Status < 400 || v.Status > 599:
		return invalidValue("status", "status must be an HTTP status from 400 to 599.")
	case v.RetryAfterMS < 0 || v.RetryAfterMS > longest:
		return invalidValue("retry_after_ms", "retry_after_ms must be from 0 to a day.")
	case v.LatencyMS < 0 || v.LatencyMS > longest:
		return invalidValue("latency_ms", "latency_ms must be from 0 to a day.")
	case v.TokensPerSecond < 0 || v.TokensPerSecond > fastest:
		return invalidValue("tokens_per_second", "tokens_per_second must be from 0 (all at once) to a million.")
	case v.FailureRate < 0 || v.FailureRate > 1:
		return invalidValue("failure_rate", "failure_rate must be from 0 to 1.")
	default:
		return nil
	}
}

// maxOperatorBody bounds the body of a request to the operator API.
const maxOperatorBody = 64 << 10

// decode reads a JSON body into a view, strictly: unknown and repeated members
// are refused.
func decode(c echo.Context, into any) error {
	body, err := operatorBody(c)
	if err != nil {
		return err
	}
	return unmarshal(body, into)
}

// decodeIfAny is decode where a request without a body leaves the view as it is.
func decodeIfAny(c echo.Context, into any) error {
	body, err := operatorBody(c)
	if err != nil || len(body) == 0 {
		return err
	}
	return unmarshal(body, into)
}

func unmarshal(body []byte, into any) error {
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return malformed(err)
	}
	return nil
}

func operatorBody(c echo.Context) ([]byte, error) {
	w, r := c.Response().Writer, c.Request()
	steady := newSteady(r.Context(), w, http.MaxBytesReader(w, r.Body, maxOperatorBody))
	defer steady.stop()
	body, err := io.ReadAll(steady)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, bodyTooLarge(maxOperatorBody)
	}
	if err != nil {
		return nil, bodyUnreadable()
	}
	steady.rest()
	return body, nil
}
