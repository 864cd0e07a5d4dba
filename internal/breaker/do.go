package breaker

// CausePanic is the cause of a call that panicked.
const CausePanic = "panic"

// Do runs a call under a permit of its own and settles it with the outcome that
// the call returns. A panic counts as a failure and goes on with the same
// value; a call that ends its goroutine (runtime.Goexit) is neutral (R13).
// Returns a *Refusal, without running the call, when it is not admitted.
func (r *Registry) Do(key string, call func(*Permit) Outcome) error {
	var p Permit
	if err := r.Acquire(key, &p); err != nil {
		return err
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			p.Done(Outcome{Kind: Failure, Cause: CausePanic})
			panic(v)
		}
		p.Done(Outcome{Kind: Neutral})
	}()
	o := call(&p)
	returned = true
	p.Done(o)
	return nil
}
