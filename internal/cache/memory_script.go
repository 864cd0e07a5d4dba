package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	tx := &memoryTx{memory: m, keys: keys, now: m.now()}
	tx.cells = tx.few[:]
	if len(keys) > len(tx.few) {
		tx.cells = make([]cell, len(keys))
	}
	defer tx.settle(&err)
	values, err = s.Go(tx, keys, args)
	if values == nil {
		values = []string{}
	}
	return values, err
}

// memoryTx is a script at work; it holds the lock of its keys. Its time stands
// still, as it does in a script on a server.
type memoryTx struct {
	memory *Memory
	keys   []string
	now    time.Time
	cells  []cell // what is at each of the keys
	few    [2]cell
}

// cell is what a script has found at a key, and made of it.
type cell struct {
	entry   *entry // nil: nothing
	looked  bool   // entry is what is there
	changed bool   // it is a hash that is stored when the script ends
}

var _ Tx = (*memoryTx)(nil)

// misuse ends a script from inside a method that has no error to return.
type misuse struct{ err error }

// settle stores the hashes that the script changed, with what they cost now,
// and turns a misuse into the script's error. Any other panic goes on.
func (t *memoryTx) settle(err *error) {
	for i, key := range t.keys {
		switch c := &t.cells[i]; {
		case !c.changed:
		case c.entry == nil:
			t.memory.entries.Invalidate(key)
		default:
			t.memory.storeHash(key, c.entry, t.memory.since(t.now))
		}
	}
	switch p := recover().(type) {
	case nil:
	case misuse:
		*err = p.err
	default:
		panic(p)
	}
}

func (t *memoryTx) Now() time.Time { return t.now }

func (t *memoryTx) Get(key string) (string, bool) {
	e := t.find(key).entry
	if e == nil {
		return "", false
	}
	if e.hash != nil {
		panic(misuse{errWrongType})
	}
	return string(e.value), true
}

func (t *memoryTx) Set(key, value string, ttl time.Duration) {
	c := t.cell(key)
	mustExpire(ttl)
	e := &entry{value: []byte(value), expires: t.expiry(ttl)}
	t.memory.store(key, e)
	*c = cell{entry: e, looked: true}
}

func (t *memoryTx) Delete(key string) {
	c := t.cell(key)
	t.memory.entries.Invalidate(key)
	*c = cell{looked: true}
}

func (t *memoryTx) HashGet(key, field string) (string, bool) {
	h := t.findHash(key).hash()
	if h == nil {
		return "", false
	}
	value, ok := h.fields[field]
	return value, ok
}

func (t *memoryTx) HashAll(key string) map[string]string {
	h := t.findHash(key).hash()
	if h == nil {
		return map[string]string{}
	}
	return maps.Clone(h.fields)
}

func (t *memoryTx) HashSet(key, field, value string, ttl time.Duration) {
	c := t.findHash(key)
	mustExpire(ttl)
	if c.entry == nil {
		c.entry = &entry{hash: &hash{fields: map[string]string{}}}
	}
	c.changed = true
	h := c.entry.hash
	if until := t.memory.since(t.expiry(ttl)); until > h.until.Load() {
		h.until.Store(until)
	}
	old, found := h.fields[field]
	if !found {
		h.size += uint64(len(field) + fieldOverhead)
	}
	h.size += uint64(len(value)) - uint64(len(old))
	h.fields[field] = value
}

func (t *memoryTx) HashDelete(key, field string) {
	c := t.findHash(key)
	h := c.hash()
	if h == nil {
		return
	}
	value, found := h.fields[field]
	if !found {
		return
	}
	h.size -= uint64(len(field) + len(value) + fieldOverhead)
	delete(h.fields, field)
	c.changed = true
	if len(h.fields) == 0 {
		c.entry = nil
	}
}

func (t *memoryTx) Publish(channel, message string) {
	t.memory.hub.publish(channel, message)
}

// find returns what is at a key; its entry is nil where there is nothing.
func (t *memoryTx) find(key string) *cell {
	c := t.cell(key)
	if !c.looked {
		c.entry, c.looked = t.memory.findAt(key, t.now), true
	}
	return c
}

func (t *memoryTx) findHash(key string) *cell {
	c := t.find(key)
	if c.entry != nil && c.entry.hash == nil {
		panic(misuse{errWrongType})
	}
	return c
}

func (c *cell) hash() *hash {
	if c.entry == nil {
		return nil
	}
	return c.entry.hash
}

func (t *memoryTx) expiry(ttl time.Duration) time.Time { return expiry(t.now, ttl) }

// cell is where a key's state is kept. A key that is named twice has one.
func (t *memoryTx) cell(key string) *cell {
	for i := range t.keys {
		if t.keys[i] == key {
			return &t.cells[i]
		}
	}
	panic(misuse{fmt.Errorf("it touches %q, which is not among its keys", key)})
}

func mustExpire(ttl time.Duration) {
	if ttl <= 0 {
		panic(misuse{errTTL})
	}
}
