package responses

import (
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

// put writes an answer and lists it, unless it was asked for before its
// configuration was cleared. KEYS: entry, shelf, mark of the clearing. ARGV: text,
// its ttl in ms, its field, the names of its pieces, the ttl of the shelf in ms, how
// long ago it was asked for in ms. Answers "1" when it is kept.
var put = &cache.Script{Name: "responses_put", Lua: `
local cleared = tonumber(redis.call('GET', KEYS[3]))
if cleared then
  local t = redis.call('TIME')
  if t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(ARGV[6]) <= cleared then
    return {'0'}
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[5]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
return {'1'}
`, Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
	if cleared, ok := tx.Get(keys[2]); ok {
		at, _ := strconv.ParseInt(cleared, 10, 64)
		if tx.Now().Add(-duration(args[5])).UnixMilli() <= at {
			return []string{"0"}, nil
		}
	}
	ttl, life := duration(args[1]), duration(args[4])
	tx.Set(keys[0], args[0], ttl)
	tx.HashSet(keys[1], args[2], args[3], life)
	return []string{"1"}, nil
}}

// mark notes that a configuration is cleared now. KEYS: the mark. ARGV: its ttl in ms.
var mark = &cache.Script{Name: "responses_mark", Lua: `
local t = redis.call('TIME')
redis.call('SET', KEYS[1], string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)), 'PX', ARGV[1])
return {}
`, Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
	tx.Set(keys[0], strconv.FormatInt(tx.Now().UnixMilli(), 10), duration(args[0]))
	return nil, nil
}}

// page reads a part of a shelf. KEYS: shelf. ARGV: the cursor of HSCAN, "0" at
// first. Answers the next cursor, "0" at the end, then fields and their values.
var page = &cache.Script{Name: "responses_page", Lua: `
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 200)
local answer = {found[1]}
for _, text in ipairs(found[2]) do
  answer[#answer + 1] = text
end
return answer
`, Go: func(tx cache.Tx, keys, _ []string) ([]string, error) {
	answer := []string{"0"}
	for field, value := range tx.HashAll(keys[0]) {
		answer = append(answer, field, value)
	}
	return answer, nil
}}

// drop takes answers away and off their shelf. KEYS: shelf, then entries. ARGV:
// their fields. Answers how many of them were still there.
var drop = &cache.Script{Name: "responses_drop", Lua: `
local there = 0
for i, name in ipairs(ARGV) do
  there = there + redis.call('DEL', KEYS[i + 1])
  redis.call('HDEL', KEYS[1], name)
end
return {tostring(there)}
`, Go: func(tx cache.Tx, keys, args []string) ([]string, error) {
	there := 0
	for i, field := range args {
		if _, ok := tx.Get(keys[i+1]); ok {
			there++
		}
		tx.Delete(keys[i+1])
		tx.HashDelete(keys[0], field)
	}
	return []string{strconv.Itoa(there)}, nil
}}

func duration(ms string) time.Duration {
	n, _ := strconv.ParseInt(ms, 10, 64)
	return time.Duration(n) * time.Millisecond
}
