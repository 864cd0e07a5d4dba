package breaker

// Sweep lets the sweeper look once, without its goroutine.
func Sweep(r *Registry) { r.tend() }
