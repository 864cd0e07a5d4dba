package cache_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// machine runs a program: each five arguments are an operation, the number of a
// key, a field, a value and a time to live. Every method of Tx is in it.
var machine = &cache.Script{
	Name: "machine",
	Lua: `
local out = {}
for i = 1, #ARGV, 5 do
  local op, key, field, value, ttl = ARGV[i], KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if op == 'get' then
    local got = redis.call('GET', key)
    out[#out + 1] = got and '=' .. got or 'none'
  elseif op == 'set' then
    redis.call('SET', key, value, 'PX', ttl)
  elseif op == 'delete' then
    redis.call('DEL', key)
  elseif op == 'hash_set' then
    redis.call('HSET', key, field, value)
    if redis.call('PTTL', key) < tonumber(ttl) then
      redis.call('PEXPIRE', key, ttl)
    end
  elseif op == 'hash_delete' then
    redis.call('HDEL', key, field)
  elseif op == 'hash_all' then
    local flat, fields, values = redis.call('HGETALL', key), {}, {}
    for j = 1, #flat, 2 do
      fields[#fields + 1] = flat[j]
      values[flat[j]] = flat[j + 1]
    end
    table.sort(fields)
    for _, name in ipairs(fields) do
      out[#out + 1] = name .. '=' .. values[name]
    end
    out[#out + 1] = '.'
  elseif op == 'fail' then
    return redis.error_reply('ERR as told')
  end
end
return out
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		var out []string
		for op := range slices.Chunk(args, 5) {
			said, err := step(tx, keys, op)
			if err != nil {
				return nil, err
			}
			out = append(out, said...)
		}
		return out, nil
	},
}

func step(tx cache.Tx, keys, op []string) ([]string, error) {
	number, _ := strconv.Atoi(op[1])
	key, field, value := keys[number-1], op[2], op[3]
	ms, _ := strconv.Atoi(op[4])
	ttl := time.Duration(ms) * time.Millisecond
	switch op[0] {
	case "get":
		if got, ok := tx.Get(key); ok {
			return []string{"=" + got}, nil
		}
		return []string{"none"}, nil
	case "set":
		tx.Set(key, value, ttl)
	case "delete":
		tx.Delete(key)
	case "hash_set":
		tx.HashSet(key, field, value, ttl)
	case "hash_delete":
		tx.HashDelete(key, field)
	case "hash_all":
		hash := tx.HashAll(key)
		var out []string
		for _, name := range slices.Sorted(maps.Keys(hash)) {
			out = append(out, name+"="+hash[name])
		}
		return append(out, "."), nil
	case "fail":
		return nil, errors.New("as told")
	}
	return nil, nil
}

// program draws what the machine shall do.
func program(t *rapid.T) []string {
	ops := rapid.SampledFrom([]string{"get", "set", "set", "delete", "hash_set", "hash_set", "hash_delete", "hash_all", "fail"})
	var args []string
	for range rapid.IntRange(1, 6).Draw(t, "length") {
		args = append(args,
			ops.Draw(t, "op"),
			strconv.Itoa(rapid.IntRange(1, 3).Draw(t, "key")),
			rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "field"),
			rapid.SampledFrom([]string{"", "1", "\x00\xff\r\n", "value"}).Draw(t, "value"),
			rapid.SampledFrom([]string{"60000", "600000", "3600000"}).Draw(t, "ttl"))
	}
	return args
}

// Whatever a script and the plain methods do, both implementations answer the
// same, and leave the same behind.
func TestBothImplementationsAgree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shared := openOn(t, server)
	keys := []string{"{k}1", "{k}2", "{k}3"}
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		local := cache.NewMemory(cache.MemoryConfig{})
		defer closeCache(t, local)
		for range rapid.IntRange(1, 8).Draw(rt, "calls") {
			call := drawCall(rt, keys)
			want, got := call(shared), call(local)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("the server answers -, memory +:\n%s", diff)
			}
			compareKeys(rt, server, shared, local, keys)
		}
	})
}

// drawCall draws one call; what it returns tells all that the caller sees.
func drawCall(t *rapid.T, keys []string) func(cache.Cache) []string {
	ctx := t.Context()
	key := rapid.SampledFrom(keys).Draw(t, "key")
	old := rapid.SampledFrom([]string{"", "1", "value"}).Draw(t, "old")
	next := rapid.SampledFrom([]string{"", "1", "value"}).Draw(t, "next")
	args := program(t)
	switch rapid.SampledFrom([]string{"run", "run", "run all", "get", "set", "add", "swap", "delete"}).Draw(t, "call") {
	case "run":
		return func(c cache.Cache) []string { return seen(c.Run(ctx, machine, keys, args...)) }
	case "run all":
		runs := []cache.Run{{Script: machine, Keys: keys, Args: args}, {Script: machine, Keys: keys, Args: program(t)}}
		return func(c cache.Cache) (all []string) {
			for _, r := range c.RunAll(ctx, runs) {
				all = append(all, seen(r.Values, r.Err)...)
			}
			return all
		}
	case "get":
		return func(c cache.Cache) []string { return seen(c.Get(ctx, key)) }
	case "set":
		return func(c cache.Cache) []string { return seen("", c.Set(ctx, key, []byte(next), time.Minute)) }
	case "add":
		return func(c cache.Cache) []string { return seen(c.Add(ctx, key, []byte(next), time.Minute)) }
	case "swap":
		return func(c cache.Cache) []string {
			return seen(c.CompareAndSwap(ctx, key, []byte(old), []byte(next), time.Minute))
		}
	}
	return func(c cache.Cache) []string { return seen("", c.Delete(ctx, key)) }
}

func seen[T any](value T, err error) []string {
	return []string{fmt.Sprintf("%q failed=%v absent=%v away=%v", fmt.Sprint(value),
		err != nil, errors.Is(err, cache.ErrNotFound), errors.Is(err, cache.ErrUnavailable))}
}

// compareKeys compares what both hold: the values, by a script, and the rest of
// their lives, which differ by what the test's own steps took.
func compareKeys(t *rapid.T, server *redistest.Server, shared cache.Cache, local *cache.Memory, keys []string) {
	for i, key := range keys {
		for _, op := range []string{"get", "hash_all"} {
			args := []string{op, strconv.Itoa(i + 1), "", "", ""}
			want, got := seen(shared.Run(t.Context(), machine, keys, args...)), seen(local.Run(t.Context(), machine, keys, args...))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s %s (-server +memory):\n%s", op, key, diff)
			}
		}
		want, got := max(server.TTL(key), 0), local.TTL(key)
		if off := (want - got).Abs(); off > 20*time.Second {
			t.Fatalf("time to live of %s: the server says %v, memory %v", key, want, got)
		}
	}
}
