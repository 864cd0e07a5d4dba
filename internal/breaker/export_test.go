package breaker

// Flush tells the store what there is to tell, which it takes as all there is.
func Flush(r *Registry) {
	if r.replica != nil {
		r.replica.margin = 0
		r.replica.flush(false)
	}
}

// Sweep lets the sweeper look once, without its goroutine.
func Sweep(r *Registry) {
	r.tend()
	if r.replica != nil {
		r.replica.flush(false)
	}
}
