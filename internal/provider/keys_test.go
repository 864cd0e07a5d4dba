package provider

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/llm"
)

var (
	keysTarget = llm.Target{Provider: "alpha", Model: "m1", Region: "r1"}
	keysOther  = llm.Target{Provider: "alpha", Model: "m2", Region: "r1"}
	keysBrief  = llm.Target{Provider: "alpha", Model: "brief", Region: "r1"} // where credentials rest for a shorter time
	keysStart  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func newKeys(n int) *Keys {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("sk-%d", i+1))
	}
	return NewKeys(texts, NewHolds(func(target llm.Target) HoldPolicy {
		if target == keysBrief {
			return HoldPolicy{MaxHint: time.Minute, Refused: 10 * time.Second}
		}
		return HoldPolicy{MaxHint: time.Hour, Refused: 10 * time.Minute}
	}))
}

func limitedFor(d time.Duration) *llm.Failure {
	return &llm.Failure{Class: llm.ClassRateLimit, Reason: llm.ReasonRateLimited, Status: 429, RetryAfter: d}
}

func refusedKey() *llm.Failure {
	return &llm.Failure{Class: llm.ClassAuth, Reason: llm.ReasonInvalidCredentials, Status: 401}
}

// fail reports a failure under a key at a time after the start and returns what
// became of it.
func fail(k *Keys, key int, f *llm.Failure, after time.Duration) *llm.Failure {
	k.Used(key, keysTarget, nil, f, keysStart.Add(after))
	return f
}

// shares counts how often each key is chosen.
func shares(k *Keys, target llm.Target, times int, after time.Duration) []int {
	counts := make([]int, len(k.Texts()))
	for range times {
		counts[k.Choose(target, keysStart.Add(after))]++
	}
	return counts
}

func TestKeysServeInTurn(t *testing.T) {
	t.Parallel()
	k := newKeys(3)
	steps := []struct {
		what   string
		do     func()
		target llm.Target
		after  time.Duration
		want   []int
	}{
		{"none rests", func() {}, keysTarget, 0, []int{4, 4, 4}},
		{"one is limited (SCO-03)", func() { fail(k, 0, limitedFor(30*time.Second), 0) }, keysTarget, 0, []int{0, 6, 6}},
		{"another model is not limited", func() {}, keysOther, 0, []int{4, 4, 4}},
		{"a second one is", func() { fail(k, 2, limitedFor(7*time.Second), 0) }, keysTarget, 6 * time.Second, []int{0, 12, 0}},
		{"all are: the first to be free is asked", func() { fail(k, 1, limitedFor(20*time.Second), 0) }, keysTarget, 6 * time.Second, []int{0, 0, 12}},
		{"each comes back when its rest is over", func() {}, keysTarget, 20 * time.Second, []int{0, 6, 6}},
		{"the last, too", func() {}, keysTarget, 30 * time.Second, []int{4, 4, 4}},
	}
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(s.want, shares(k, s.target, 12, s.after)); diff != "" {
			t.Errorf("%s: chosen (-want +got):\n%s", s.what, diff)
		}
	}
}

func TestHowLongAKeyRests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		f    *llm.Failure
		want time.Duration
	}{
		{"as long as it is told", limitedFor(30 * time.Second), 30 * time.Second},
		{"not longer than is honoured", limitedFor(24 * time.Hour), time.Hour},
		{"a moment when it is not told", limitedFor(0), time.Second},
		{"a refused one", refusedKey(), 10 * time.Minute},
		{"one without credit", &llm.Failure{Class: llm.ClassQuota, Reason: llm.ReasonQuotaExhausted, Status: 402}, 10 * time.Minute},
		{"one whose credit comes back later", &llm.Failure{Class: llm.ClassQuota, Status: 429, RetryAfter: 20 * time.Minute}, 20 * time.Minute},
		{"not at all for what is the provider's own", &llm.Failure{Class: llm.ClassServerError, Status: 503, RetryAfter: time.Minute}, 0},
		{"nor for what is the request's", &llm.Failure{Class: llm.ClassClientError, Status: 400}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(2)
			fail(k, 0, tt.f, 0)
			if tt.want > 0 {
				if diff := cmp.Diff([]int{0, 4}, shares(k, keysTarget, 4, tt.want-1)); diff != "" {
					t.Errorf("chosen before (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff([]int{2, 2}, shares(k, keysTarget, 4, tt.want)); diff != "" {
				t.Errorf("chosen after (-want +got):\n%s", diff)
			}
			if rests := tt.want > 0; tt.f.OtherCredential != rests || (tt.f.Refusal != nil) != rests {
				t.Errorf("another key may serve: %v, refusal %v", tt.f.OtherCredential, tt.f.Refusal)
			}
		})
	}
}

// While a key is free the target does not fail; then it fails as the key does
// that is free again first.
func TestTheTargetFailsWhenNoKeyIsLeft(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		last       []*llm.Failure
		class      llm.FailureClass
		status     int
		retryAfter time.Duration
	}{
		{"for the soonest of their hints", []*llm.Failure{limitedFor(30 * time.Second), limitedFor(7 * time.Second), limitedFor(20 * time.Second)}, llm.ClassRateLimit, 429, 7 * time.Second},
		{"without a time where none was told", []*llm.Failure{limitedFor(30 * time.Second), limitedFor(0), limitedFor(20 * time.Second)}, llm.ClassRateLimit, 429, 0},
		{"by its limit when the others are refused", []*llm.Failure{refusedKey(), limitedFor(30 * time.Second), refusedKey()}, llm.ClassRateLimit, 429, 30 * time.Second},
		{"by its limit, also when that lasts longer", []*llm.Failure{limitedFor(50 * time.Minute), refusedKey(), refusedKey()}, llm.ClassRateLimit, 429, 50 * time.Minute},
		{"by its refusal when all are", []*llm.Failure{refusedKey(), refusedKey(), refusedKey()}, llm.ClassAuth, 401, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(3)
			for i, f := range tt.last {
				suffered := f.Class
				fail(k, i, f, 0)
				if left := i < 2; f.OtherCredential != left || f.Trips() && left {
					t.Errorf("after %d keys: another may serve: %v, trips: %v", i+1, f.OtherCredential, f.Trips())
				}
				if want := (llm.CredentialRefusal{Credential: i + 1, Class: suffered, Reason: f.Refusal.Reason}); *f.Refusal != want {
					t.Errorf("refusal %v, want %v", *f.Refusal, want)
				}
			}
			got := tt.last[2]
			if got.Class != tt.class || got.Status != tt.status || got.RetryAfter != tt.retryAfter {
				t.Errorf("failed as %v, Retry-After %v; want %s, %d, %v", got, got.RetryAfter, tt.class, tt.status, tt.retryAfter)
			}
		})
	}
}

func TestOneKeyNeverRests(t *testing.T) {
	t.Parallel()
	for _, texts := range [][]string{nil, {"sk-1"}} {
		k, result := NewKeys(texts, nil), &llm.Result{}
		f := limitedFor(time.Minute)
		k.Used(k.Choose(keysTarget, keysStart), keysTarget, result, f, keysStart)
		if f.OtherCredential || f.Refusal != nil || f.RetryAfter != time.Minute || result.Credential != 0 {
			t.Errorf("%d keys: failure %+v, credential %d", len(texts), f, result.Credential)
		}
		if got := k.Choose(keysTarget, keysStart); got != 0 {
			t.Errorf("chose %d", got)
		}
	}
}

func TestTheResultNamesItsKey(t *testing.T) {
	t.Parallel()
	k, result := newKeys(2), &llm.Result{}
	k.Used(1, keysTarget, result, errors.New("unclassified"), keysStart)
	if result.Credential != 2 {
		t.Errorf("credential %d, want 2", result.Credential)
	}
}

// Holds are shared by the keys of the configuration before and after a reload.
func TestHoldsOutliveTheirKeys(t *testing.T) {
	t.Parallel()
	before := newKeys(2)
	fail(before, 0, limitedFor(time.Minute), 0)
	after := NewKeys([]string{"sk-new", "sk-1"}, before.holds)
	if diff := cmp.Diff([]int{4, 0}, shares(after, keysTarget, 4, time.Second)); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
}

func TestKeysServeManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeys(3)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for n := range 200 {
				now := keysStart.Add(time.Duration(n) * time.Second)
				key := k.Choose(keysTarget, now)
				var err error
				if (n+i)%5 == 0 {
					err = limitedFor(time.Second)
				}
				k.Used(key, keysTarget, &llm.Result{}, err, now)
			}
		})
	}
	calls.Wait()
	if diff := cmp.Diff([]int{4, 4, 4}, shares(k, keysTarget, 12, time.Hour)); diff != "" {
		t.Errorf("chosen when all is over (-want +got):\n%s", diff)
	}
	if left := k.holds.count.Load(); left != 0 {
		t.Errorf("%d holds are kept that are over", left)
	}
}

// How long a credential rests is a matter of the target for which it does.
func TestACredentialRestsAsLongAsItsTargetSays(t *testing.T) {
	t.Parallel()
	for target, want := range map[llm.Target]time.Duration{keysTarget: 10 * time.Minute, keysBrief: 10 * time.Second} {
		k := newKeys(2)
		k.Used(0, target, nil, refusedKey(), keysStart)
		for _, after := range []time.Duration{want - 1, want} { // in time's own order: what is over is forgotten
			resting := after < want
			if free, _, _ := k.state(target, keysStart.Add(after)); resting != (len(free) == 1) {
				t.Errorf("%s: after %v the free keys are %v, want the first at rest: %t", target.Key(), after, free, resting)
			}
		}
	}
}
