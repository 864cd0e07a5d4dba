package cachetest

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

var (
	errDiffer = errors.New("they differ")
	errMeant  = errors.New("this was meant")
)

// One script for each method of Tx: what it does in Go and what stands for it in
// Lua. Times to live are arguments, in milliseconds.

// get answers the value behind a =, nothing when the key is absent.
var get = &cache.Script{
	Name: "get",
	Lua: `
local value = redis.call('GET', KEYS[1])
if not value then
  return {}
end
return {'=' .. value}
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		value, ok := tx.Get(keys[0])
		if !ok {
			return nil, nil
		}
		return []string{"=" + value}, nil
	},
}

var set = &cache.Script{
	Name: "set",
	Lua: `
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		tx.Set(keys[0], args[0], milliseconds(args[1]))
		return nil, nil
	},
}

var del = &cache.Script{
	Name: "delete",
	Lua: `
redis.call('DEL', KEYS[1])
return {}
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		tx.Delete(keys[0])
		return nil, nil
	},
}

// hashGet answers the field's value behind a =, nothing when it is absent.
var hashGet = &cache.Script{
	Name: "hash_get",
	Lua: `
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then
  return {}
end
return {'=' .. value}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		value, ok := tx.HashGet(keys[0], args[0])
		if !ok {
			return nil, nil
		}
		return []string{"=" + value}, nil
	},
}

// hashAll answers fields and values in turn, the fields in order.
var hashAll = &cache.Script{
	Name: "hash_all",
	Lua: `
local flat, fields, values = redis.call('HGETALL', KEYS[1]), {}, {}
for i = 1, #flat, 2 do
  fields[#fields + 1] = flat[i]
  values[flat[i]] = flat[i + 1]
end
table.sort(fields)
local out = {}
for _, field in ipairs(fields) do
  out[#out + 1] = field
  out[#out + 1] = values[field]
end
return out
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		hash := tx.HashAll(keys[0])
		var out []string
		for _, field := range slices.Sorted(maps.Keys(hash)) {
			out = append(out, field, hash[field])
		}
		return out, nil
	},
}

var hashSet = &cache.Script{
	Name: "hash_set",
	Lua: `
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		tx.HashSet(keys[0], args[0], args[1], milliseconds(args[2]))
		return nil, nil
	},
}

var hashDelete = &cache.Script{
	Name: "hash_delete",
	Lua: `
redis.call('HDEL', KEYS[1], ARGV[1])
return {}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		tx.HashDelete(keys[0], args[0])
		return nil, nil
	},
}

// now answers the clock in microseconds.
var now = &cache.Script{
	Name: "now",
	Lua: `
local time = redis.call('TIME')
return {string.format('%.0f', time[1] * 1000000 + time[2])}
`,
	Go: func(tx cache.Tx, _, _ []string) ([]string, error) {
		return []string{strconv.FormatInt(tx.Now().UnixMicro(), 10)}, nil
	},
}

var publish = &cache.Script{
	Name: "publish",
	Lua: `
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {}
`,
	Go: func(tx cache.Tx, _, args []string) ([]string, error) {
		tx.Publish(args[0], args[1])
		return nil, nil
	},
}

// fail writes, and then fails.
var fail = &cache.Script{
	Name: "fail",
	Lua: `
redis.call('SET', KEYS[1], 'before', 'PX', 600000)
return redis.error_reply('ERR this was meant')
`,
	Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
		tx.Set(keys[0], "before", lifetime)
		return nil, errMeant
	},
}

// echo answers its keys, then its arguments.
var echo = &cache.Script{
	Name: "echo",
	Lua: `
local out = {}
for _, key in ipairs(KEYS) do out[#out + 1] = key end
for _, arg in ipairs(ARGV) do out[#out + 1] = arg end
return out
`,
	Go: func(_ cache.Tx, keys, args []string) ([]string, error) {
		return slices.Concat(keys, args), nil
	},
}

// appendTo adds its argument to the end of the value.
var appendTo = &cache.Script{
	Name: "append",
	Lua: `
local value = (redis.call('GET', KEYS[1]) or '') .. ARGV[1]
redis.call('SET', KEYS[1], value, 'PX', 600000)
return {value}
`,
	Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
		value, _ := tx.Get(keys[0])
		value += args[0]
		tx.Set(keys[0], value, lifetime)
		return []string{value}, nil
	},
}

func milliseconds(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * time.Millisecond
}
