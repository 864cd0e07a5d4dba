package templates

// SectionLimits is the section that says what callers and configurations may
// still use.
const SectionLimits = "Limits"

// LimitsPage is how every limit stands.
type LimitsPage struct {
	Frame   Frame
	Trouble string // what is in the way of knowing; empty = nothing
	Alone   bool   // the figures are those of this gateway's share
	Holders []LimitHolder
}

// LimitHolder is whom limits hold for.
type LimitHolder struct {
	ID      string // unique on the page
	Kind    string // "Configuration" or "API key"
	Name    string
	Trouble string // why its limits cannot be told; empty = they are
	Limits  []LimitRow
}

// LimitRow is one limit.
type LimitRow struct {
	Name     string
	State    Mark
	Allowed  string
	Spent    string
	Reserved string
	Left     string
	Used     int // percent of what is allowed, reserved included; at most 100
	Resets   Moment
}
