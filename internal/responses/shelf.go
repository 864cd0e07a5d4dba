package responses

import (
	"strconv"
	"time"
)

// Answers are listed on shelves, so that all of a configuration can be found and
// forgotten. A shelf holds those that expire in the same hour and goes with them,
// so that no list grows and none has to be swept.

// Longest is how long an answer may be kept.
const Longest = 30 * 24 * time.Hour

const shelfWidth = time.Hour

// shelfOf numbers the shelf of what expires at a time.
func shelfOf(expires time.Time) int64 { return expires.UnixNano() / int64(shelfWidth) }

// shelfLife is how long a shelf is there that gets an answer for ttl: an hour
// longer than the last of its answers may be.
func shelfLife(ttl time.Duration) time.Duration { return ttl + 2*shelfWidth }

// shelves numbers all that may hold an answer now. Clocks of replicas may differ.
func shelves(now time.Time) (all []int64) {
	for n := shelfOf(now) - 1; n <= shelfOf(now.Add(Longest))+1; n++ {
		all = append(all, n)
	}
	return all
}

func shelfKey(configuration string, n int64) string {
	return prefix(configuration) + "shelf:" + strconv.FormatInt(n, 10)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}
