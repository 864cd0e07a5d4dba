package templates

// Overview is the page that an operator on call sees first.
type Overview struct {
	Frame     Frame
	AsOf      Moment
	Summary   Summary
	Attention Attention
	Callers   []Caller
	Targets   Targets
	Runs      Runs
}

// Summary is the whole in one line.
type Summary struct {
	Title    string // of the document, short enough for a tab
	Tone     Tone
	Headline string
	Detail   string
}

// Attention is what a person should look at: what is sick, and apart from that
// what a person has set.
type Attention struct{ Sick, Held []Notice }

// Caller is how those fare who name one configuration.
type Caller struct {
	Name string // of the configuration
	Mark Mark
	Text string
}

// Notice is one thing that needs a person's attention: a circuit that is not
// closed, or an alarm. Facts answer why, since when and what happens next.
type Notice struct {
	Mark    Mark
	Subject string
	ID, URL string // of the page that says more; empty where there is none
	Facts   []Fact
}

// Targets are all targets with their circuits and their health.
type Targets struct {
	Order   string // how the targets of a configuration are ordered
	Window  string // what the figures are about
	Trouble string // why there are no figures; empty when there are
	Rows    []Target
}

// Target is one row. An empty figure is one for which there is no data.
type Target struct {
	ID, URL                 string // of the circuit's page
	Provider, Model, Region string

	State    Mark
	Reason   string
	Since    Moment
	Policy   string // what governs the circuit; empty: what governs most
	Next     string // what the circuit waits for; empty while it waits for nothing
	Rejected string

	Score   Score
	Success string
	Latency Latency
}

// Score is a health score from 0 to 1 over a number of samples.
type Score struct {
	Text    string // empty: no data
	Percent int    // of the bar
	Tone    Tone
	Samples string
}

// Latency are the latencies of successes.
type Latency struct{ Mean, P50, P99 string }

// Runs are the latest runs, newest first.
type Runs struct {
	Trouble string // why they cannot be listed; empty when they can
	Rows    []Run
}

// Run is one call of a client, in one row.
type Run struct {
	ID       string
	URL      string
	At       Moment
	Key      string // the name of the API key, or its id; empty while none is needed
	Asked    string // the configuration or target that the client named
	Outcome  Mark
	Why      string // class and reason of what went wrong
	Served   string // the target that answered; empty when none did
	Attempts string
	Latency  string
	Cost     string
}

// RunPage is one run with its attempts.
type RunPage struct {
	Frame    Frame
	Outcome  Mark
	Headline string
	Summary  string
	Facts    []Fact
	Attempts []Attempt
}

// Attempt is one target that was asked, or that was not and why.
type Attempt struct {
	Seq     string
	Target  string
	Outcome Mark
	Why     string
	Status  string // of the upstream's answer
	Circuit string // as the attempt found it
	At      Moment
	Latency string
	First   string // time to the first token
	Retries string
	Tokens  string
	Cost    string
}
