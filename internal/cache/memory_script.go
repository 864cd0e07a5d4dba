package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

var errNoGo = errors.New("it has no Go function")

// Run is described by Cache.
func (m *Memory) Run(ctx context.Context, s *Script, keys []string, args ...string) ([]string, error) {
	values, err := m.run(ctx, s, keys, args)
	if err != nil {
		return nil, s.failed(err)
	}
	return values, nil
}

// RunAll is described by Cache.
func (m *Memory) RunAll(ctx context.Context, runs []Run) []Result {
	results := make([]Result, len(runs))
	for i, run := range runs {
		results[i].Values, results[i].Err = m.Run(ctx, run.Script, run.Keys, run.Args...)
	}
	return results
}

func (m *Memory) run(ctx context.Context, s *Script, keys, args []string) (values []string, err error) {
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	if err := sameSlot(keys); err != nil {
		return nil, err
	}
	if s.Go == nil {
		return nil, errNoGo
	}
	lock := m.lock(keys[0])
	lock.Lock()
	defer lock.Unlock()
	tx := &memoryTx{memory: m, keys: keys}
	defer tx.settle(&err)
	values, err = s.Go(tx, keys, args)
	if values == nil {
		values = []string{}
	}
	return values, err
}

// memoryTx is a script at work; it holds the lock of its keys.
type memoryTx struct {
	memory *Memory
	keys   []string
	hashes map[string]*entry // those it changed, stored again when it ends
}

var _ Tx = (*memoryTx)(nil)

// misuse ends a script from inside a method that has no error to return.
type misuse struct{ err error }

// settle stores the hashes that the script changed, with what they cost now,
// and turns a misuse into the script's error. Any other panic goes on.
func (t *memoryTx) settle(err *error) {
	for key, e := range t.hashes {
		if len(e.hash) == 0 {
			t.memory.entries.Invalidate(key)
			continue
		}
		t.memory.store(key, e)
	}
	switch p := recover().(type) {
	case nil:
	case misuse:
		*err = p.err
	default:
		panic(p)
	}
}

func (t *memoryTx) Now() time.Time { return t.memory.now() }

func (t *memoryTx) Get(key string) (string, bool) {
	e := t.find(key)
	if e == nil {
		return "", false
	}
	if e.hash != nil {
		panic(misuse{errWrongType})
	}
	return string(e.value), true
}

func (t *memoryTx) Set(key, value string, ttl time.Duration) {
	t.mustDeclare(key)
	mustExpire(ttl)
	delete(t.hashes, key)
	t.memory.store(key, &entry{value: []byte(value), expires: t.memory.expiry(ttl)})
}

func (t *memoryTx) Delete(key string) {
	t.mustDeclare(key)
	delete(t.hashes, key)
	t.memory.entries.Invalidate(key)
}

func (t *memoryTx) HashAll(key string) map[string]string {
	e := t.findHash(key)
	if e == nil {
		return map[string]string{}
	}
	return maps.Clone(e.hash)
}

func (t *memoryTx) HashSet(key, field, value string, ttl time.Duration) {
	e := t.findHash(key)
	mustExpire(ttl)
	expires := t.memory.expiry(ttl)
	if e == nil {
		e = &entry{hash: map[string]string{}}
	}
	if e.expires.After(expires) {
		expires = e.expires
	}
	e.hash[field] = value
	t.change(key, &entry{hash: e.hash, expires: expires})
}

func (t *memoryTx) HashDelete(key, field string) {
	e := t.findHash(key)
	if e == nil {
		return
	}
	delete(e.hash, field)
	t.change(key, &entry{hash: e.hash, expires: e.expires})
}

func (t *memoryTx) Publish(channel, message string) {
	t.memory.hub.publish(channel, message)
}

func (t *memoryTx) change(key string, e *entry) {
	if t.hashes == nil {
		t.hashes = map[string]*entry{}
	}
	t.hashes[key] = e
}

// find returns what the script sees at a key, or nil.
func (t *memoryTx) find(key string) *entry {
	t.mustDeclare(key)
	e, changed := t.hashes[key]
	if !changed {
		return t.memory.find(key)
	}
	if len(e.hash) == 0 || !t.memory.now().Before(e.expires) {
		return nil
	}
	return e
}

func (t *memoryTx) findHash(key string) *entry {
	e := t.find(key)
	if e != nil && e.hash == nil {
		panic(misuse{errWrongType})
	}
	return e
}

func (t *memoryTx) mustDeclare(key string) {
	if !slices.Contains(t.keys, key) {
		panic(misuse{fmt.Errorf("it touches %q, which is not among its keys", key)})
	}
}

func mustExpire(ttl time.Duration) {
	if ttl <= 0 {
		panic(misuse{errTTL})
	}
}
