package templates

// CircuitPage is one circuit: what state it is in and why, whom that hurts,
// what an operator can do, and what has happened.
type CircuitPage struct {
	Frame   Frame
	AsOf    Moment
	Key     string
	URL     string
	Unsaved bool // what was just commanded is not saved yet
	Circuit Circuit
	Callers []Caller // of the configurations that lead to it
	Actions []Action // none where nobody may steer
	History History
}

// Circuit is the state of one circuit.
type Circuit struct {
	Title string // of the document
	Mark  Mark
	Why   string
	Facts []Fact
}

// Action is something that an operator can do to a circuit as it is now.
type Action struct {
	ID     string // unique on the page
	Label  string
	Effect string // on callers, in a sentence
	URL    string
	Asks   bool // leads to a form, since it needs words or hurts callers
}

// History is what has happened to a circuit, newest first.
type History struct {
	Trouble string // why it cannot be shown; empty when it can
	Rows    []Change
	Own     OwnCall
}

// OwnCall is a call that the gateway made on its own account.
type OwnCall struct {
	Called  string // what it is called; empty: there is none to show
	At      Moment
	Outcome Mark
	Why     string // it failed
	Latency string
	URL     string
}

// Change is one transition.
type Change struct {
	At       Moment
	From, To Mark
	Why      string
	By       string
}

// how is what is said of it beside its outcome.
func (o OwnCall) how() string {
	if o.Why == "" {
		return "after " + o.Latency + ", "
	}
	return "by " + o.Why + ", after " + o.Latency + ", "
}

// CommandPage asks what a command still needs, and whether it is meant.
type CommandPage struct {
	Frame   Frame
	Key     string
	Circuit string // URL of the circuit's page
	Form    CommandForm
}

// CommandForm is the step between wanting something of a circuit and doing it.
type CommandForm struct {
	URL     string
	Title   string
	Effect  string
	Mark    Mark     // of the circuit now
	Callers []Caller // as they would fare
	Direct  string   // how those would fare who name the target itself; empty where nobody may
	Tone    Tone     // of the button
	Button  string
	Cancel  string // URL

	Trouble string // why the command was not obeyed
	Reason  Field
	Lasts   Choice
}

// Field is a text that is asked for, with what was typed before.
type Field struct {
	Value    string
	Problem  string // what is wrong with the value; empty when nothing is
	Longest  int    // characters
	Required bool
}

// Choice is one of several, asked for where there are any.
type Choice struct {
	Problem string
	Options []Option
}

// Option is one of a choice.
type Option struct {
	Value, Text string
	Chosen      bool
}
