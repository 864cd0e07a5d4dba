// Package credential mints the texts that prove who calls, API keys and
// operator tokens, and reads them back: MARKER PREFIX _ SECRET. The marker says
// what it is, also to scanners of leaked credentials; the prefix is public and
// finds what is kept; the secret proves it, and only its hash is kept. A credential
// has a name, and a life that ends. The package must not know who calls, nor where
// anything is kept.
package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

const (
	prefixLength = 10
	secretLength = 43 // of 62 letters each: 256 bits
)

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Kind is one kind of credential.
type Kind struct{ marker string }

// NewKind returns the kind whose texts begin with a marker such as "bw_".
func NewKind(marker string) Kind { return Kind{marker: marker} }

// Text is a credential in its parts. It never shows its secret by itself: print
// Public, hand out Whole once.
type Text struct {
	kind   Kind
	Prefix string
	secret string
}

// Mint makes a new credential.
func (k Kind) Mint() Text {
	return Text{kind: k, Prefix: randomText(prefixLength), secret: randomText(secretLength)}
}

// Parse reads a credential's whole text. What has another form was never minted.
func (k Kind) Parse(s string) (Text, bool) {
	body, ok := strings.CutPrefix(s, k.marker)
	if !ok || len(body) != prefixLength+1+secretLength || body[prefixLength] != '_' {
		return Text{}, false
	}
	prefix, secret := body[:prefixLength], body[prefixLength+1:]
	if !lettersOnly(prefix) || !lettersOnly(secret) {
		return Text{}, false
	}
	return Text{kind: k, Prefix: prefix, secret: secret}, true
}

// Public is what may be shown of the credential that has a prefix: its beginning.
func (k Kind) Public(prefix string) string { return k.marker + prefix }

// Named returns by what a person names a credential: the prefix where its whole
// text or its beginning is given, else what was given.
func (k Kind) Named(s string) string {
	if whole, ok := k.Parse(s); ok {
		return whole.Prefix
	}
	return strings.TrimPrefix(s, k.marker)
}

// Whole is the text that its owner gets, once.
func (t Text) Whole() string { return t.kind.marker + t.Prefix + "_" + t.secret }

// Public is what may be shown of it.
func (t Text) Public() string { return t.kind.Public(t.Prefix) }

// String is Public, so that no log line or error holds a secret.
func (t Text) String() string { return t.Public() }

// GoString is Public.
func (t Text) GoString() string { return t.Public() }

// Hash is what is kept of a secret. A fast hash will do: it is 256 random bits,
// which nobody guesses, unlike a password that a person made up.
func (t Text) Hash() []byte {
	sum := t.sum()
	return sum[:]
}

// Proves reports whether the secret is the one of a hash, in a time that does
// not depend on how much of it is right.
func (t Text) Proves(hash []byte) bool {
	sum := t.sum()
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}

// sum copies the secret onto the stack first: a conversion would allocate on the
// way of every call.
func (t Text) sum() [sha256.Size]byte {
	var secret [secretLength]byte
	copy(secret[:], t.secret)
	return sha256.Sum256(secret[:])
}

// randomText draws letters evenly: bytes that would favour the first ones are
// drawn again.
func randomText(length int) string {
	const even = 256 - 256%len(letters)
	drawn := make([]byte, 0, length)
	for buf := make([]byte, 64); len(drawn) < length; {
		_, _ = rand.Read(buf) // never fails
		for _, b := range buf {
			if int(b) < even && len(drawn) < length {
				drawn = append(drawn, letters[int(b)%len(letters)])
			}
		}
	}
	return string(drawn)
}

func lettersOnly(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
