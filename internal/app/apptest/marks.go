package apptest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Marks are secrets that a test plants to see where they come up again.
type Marks struct{ all []mark }

// mark is one secret in every form in which it is looked for.
type mark struct {
	name  string
	forms []form
}

type form struct{ name, needle string }

// Leak is a secret that was found in a text.
type Leak struct {
	Secret string // its name
	Form   string // plain, base64, …
	Near   string // what stands around it
}

// Plant returns a secret of a form in which %s becomes letters that are found
// nowhere else.
func (m *Marks) Plant(name, format string) string {
	letters := rand.Text()
	text := fmt.Sprintf(format, letters)
	m.add(name, letters, text)
	return text
}

// Watch looks for a secret that somebody else has made; unmistakable is the part
// of it that may not be seen.
func (m *Marks) Watch(name, text, unmistakable string) { m.add(name, unmistakable, text) }

// add makes the forms of a secret: plain, in whole or in pieces of ten letters;
// spelled out in escapes; in base64 at every offset; in hex; and its digest.
// Quotes and escapes of a few letters need no form: the unmistakable part is
// letters and digits, which nobody escapes unless he escapes them all.
func (m *Marks) add(name, unmistakable, text string) {
	one := mark{name: name}
	say := func(form_ string, needles ...string) {
		for _, needle := range needles {
			one.forms = append(one.forms, form{form_, needle})
		}
	}
	const piece = 10
	for at := 0; at+piece <= len(unmistakable); at += piece - 2 {
		part := unmistakable[at : at+piece]
		say("plain", part, strings.ToLower(part))
		say("escaped", spelled(part, `\u%04x`), spelled(part, `%%%02x`), spelled(part, `%%%02X`), spelled(part, `&#%d;`))
		say("hex", hex.EncodeToString([]byte(part)), strings.ToUpper(hex.EncodeToString([]byte(part))))
	}
	for offset := range 3 {
		say("base64", inBase64(unmistakable, offset)...)
	}
	for _, whole := range []string{text, unmistakable, "Bearer " + text} {
		say("digest", digests(whole)...)
	}
	m.all = append(m.all, one)
}

func spelled(text, format string) string {
	var out strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&out, format, text[i])
	}
	return out.String()
}

// inBase64 is how text shows in base64 behind so many other bytes; letters that
// depend on its neighbours are left out.
func inBase64(text string, offset int) []string {
	const shown = 16
	padded := []byte(strings.Repeat("\x00", offset) + text)
	from := []int{0, 2, 3}[offset]
	return []string{
		base64.StdEncoding.EncodeToString(padded)[from : from+shown],
		base64.URLEncoding.EncodeToString(padded)[from : from+shown],
	}
}

// digests are the beginnings of a text's SHA-256, of which a fingerprint may show
// no more, and the digest itself.
func digests(text string) []string {
	const shown = 12
	sum := sha256.Sum256([]byte(text))
	return []string{
		hex.EncodeToString(sum[:])[:shown], strings.ToUpper(hex.EncodeToString(sum[:]))[:shown],
		base64.StdEncoding.EncodeToString(sum[:])[:shown], base64.URLEncoding.EncodeToString(sum[:])[:shown],
		string(sum[:]),
	}
}

// Leaks returns which secrets come up in a text, each once per form.
func (m *Marks) Leaks(text string) []Leak {
	var leaks []Leak
	for _, one := range m.all {
		found := ""
		for _, f := range one.forms {
			if f.name == found {
				continue
			}
			if at := strings.Index(text, f.needle); at >= 0 {
				found = f.name
				leaks = append(leaks, Leak{Secret: one.name, Form: f.name, Near: text[max(0, at-120):min(len(text), at+60)]})
			}
		}
	}
	return leaks
}
