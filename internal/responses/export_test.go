package responses

import "time"

// TakeYourTime lets a store write for as long as a busy machine may need.
func (s *Store) TakeYourTime() { s.timeout = 10 * time.Minute }
