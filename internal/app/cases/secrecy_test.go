package cases

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// confidential is everything that is marked, and where alone it may show, as the
// form and the place: a caller's own words come back to the caller, and of a
// token its digest is kept.
var confidential = []struct {
	name, format string
	mayShow      []string
}{
	{"alpha's key", `sk-"%s<&+%%/`, nil},
	{"alpha's next key", `sk-"%s<&+%%/`, nil}, // after a reload
	{"beta's first key", "sk-%s", nil},
	{"beta's second key", "sk-%s", nil},
	{"a key from a file", "sk-%s", nil},
	{"a key of a refused reload", "sk-%s", nil},
	{"the database's password", `p/w"%s@:?#%%`, nil},
	{"the cache's password", `p/w"%s@:?#%%`, nil},
	{"the metrics' token", "mt-%s", nil},
	{"a key that is none", "bw_0123456789_%s", nil},
	{"a caller's cookie", "session=%s", nil},
	{"a caller's query", "%s", []string{"plain answer"}},
	{"an idempotency key", "order-%s", nil},
	{"a token that is none", "bwo_0123456789_%s", nil},
	{"a prompt", "say %s", nil},
	{"a prompt in broken JSON", "say %s", []string{"plain answer"}},
	{"a model's answer", "ok %s", []string{"plain answer", "plain cache"}}, // there to be answered again
	{"why a request is refused", "bad %s", []string{"plain answer"}},
	{"what a sick upstream says", "sick %s", nil},
	{"what an assembler knows", "fact %s", nil},
	{"what an assembler complains of", "lost %s", nil},
}

// Nothing that is confidential shows anywhere: in an answer, a page, a log, a
// metric, a row, a key or a value of the cache.
func TestNothingConfidentialIsWritten(t *testing.T) {
	t.Parallel()
	j := embark(t)
	for _, path := range everyPath {
		t.Run(strings.ReplaceAll(path.name, " ", "_"), func(t *testing.T) {
			j.t = t
			path.take(j)
		})
	}
	j.t = t
	j.disembark()
	for _, complaint := range j.complaints(j.seen) {
		t.Error(complaint)
	}
	planted := sight{"log", "before " + j.text["alpha's key"] + " after"}
	if got := j.complaints([]sight{planted}); len(got) != 1 {
		t.Errorf("of a planted leak %q is found", got)
	}
}

// complaints says what shows where it may not, once for each place.
func (j *journey) complaints(seen []sight) []string {
	said := map[string]string{}
	for _, s := range seen {
		for _, leak := range j.marks.Leaks(s.text) {
			if !j.mayShow(leak.Secret, leak.Form+" "+s.place) {
				said[leak.Secret+" "+leak.Form+" "+s.place] = fmt.Sprintf("%s: %s shows (%s): …%q…", s.place, leak.Secret, leak.Form, leak.Near)
			}
		}
	}
	return slices.Sorted(maps.Values(said))
}

func (j *journey) mayShow(secret, formAndPlace string) bool {
	if slices.Contains(j.minted[secret], formAndPlace) {
		return true
	}
	for _, c := range confidential {
		if c.name == secret && slices.Contains(c.mayShow, formAndPlace) {
			return true
		}
	}
	return false
}
