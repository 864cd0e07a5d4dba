package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Reload is how an attempt to reload the configuration ended.
type Reload string

// The ends of a reload.
const (
	ReloadApplied   Reload = "applied"
	ReloadUnchanged Reload = "unchanged" // it says what the running one says
	ReloadRefused   Reload = "refused"   // it has faults; the running one stays
)

// reloads are the families about the configuration.
type reloads struct {
	total      *prometheus.CounterVec
	successful prometheus.Gauge
}

func newReloads(f families) reloads {
	r := reloads{
		total:      f.counter("config_reloads_total", "Attempts to reload the configuration, by how they ended.", "result"),
		successful: f.gauge("config_last_reload_successful", "1 unless the configuration was refused when it was last loaded.").WithLabelValues(),
	}
	for _, result := range []Reload{ReloadApplied, ReloadUnchanged, ReloadRefused} {
		r.total.WithLabelValues(string(result))
	}
	r.successful.Set(1) // the process has started with it
	return r
}

// ConfigReloaded counts an attempt to reload the configuration.
func (m *Metrics) ConfigReloaded(result Reload) {
	m.reloads.total.WithLabelValues(string(result)).Inc()
	if result == ReloadRefused {
		m.reloads.successful.Set(0)
		return
	}
	m.reloads.successful.Set(1)
}
