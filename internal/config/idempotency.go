package config

import "time"

// What a call does whose key is at work for another one.
const (
	OnConflictWait   = "wait"
	OnConflictReject = "reject"
)

// Idempotency is what becomes of calls that carry an Idempotency-Key.
type Idempotency struct {
	TTL        time.Duration `yaml:"ttl" check:"min=1s" doc:"How long an answer is kept and given again."`
	OnConflict string        `yaml:"on_conflict" check:"oneof=wait|reject" doc:"What a call does while another one under its key is under way: wait for that one's answer, or be refused with 409."`
	Wait       time.Duration `yaml:"wait" check:"over=0s" doc:"How long it waits at most."`
	FailOpen   bool          `yaml:"fail_open" doc:"Whether calls with a key are made while the store of keys is away, at the risk of making one twice; false refuses them with 503."`
	MaxResult  Size          `yaml:"max_result" check:"min=1KiB,max=64MiB" doc:"Longest answer that is kept. A retry of a call with a longer one is a new call."`
}

func defaultIdempotency() Idempotency {
	return Idempotency{TTL: 24 * time.Hour, OnConflict: OnConflictWait, Wait: time.Minute, FailOpen: true, MaxResult: 8 * MiB}
}
