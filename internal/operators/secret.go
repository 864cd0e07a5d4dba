package operators

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// A token's text is bwo_PREFIX_SECRET: the prefix finds it, the secret proves
// it. Scanners of leaked credentials recognise the beginning.
const (
	marker       = "bwo_"
	prefixLength = 10
	secretLength = 43 // of 62 letters each: 256 bits
)

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// text is a token in its parts.
type text struct{ prefix, secret string }

func mint() text { return text{prefix: randomText(prefixLength), secret: randomText(secretLength)} }

func (t text) String() string { return marker + t.prefix + "_" + t.secret }

// parse reads a token's text. What has another form was never minted.
func parse(s string) (text, bool) {
	body, ok := strings.CutPrefix(s, marker)
	prefix, secret, parted := strings.Cut(body, "_")
	if !ok || !parted || !lettersOnly(prefix, prefixLength) || !lettersOnly(secret, secretLength) {
		return text{}, false
	}
	return text{prefix: prefix, secret: secret}, true
}

// hash is what is kept of a secret. A fast hash will do: it is 256 random bits,
// which nobody guesses, unlike a password that a person made up.
func (t text) hash() []byte {
	sum := sha256.Sum256([]byte(t.secret))
	return sum[:]
}

// proves reports whether the secret is the one of the hash, in a time that does
// not depend on how much of it is right.
func (t text) proves(hash []byte) bool { return subtle.ConstantTimeCompare(t.hash(), hash) == 1 }

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

func lettersOnly(s string, length int) bool {
	return len(s) == length && strings.Trim(s, letters) == ""
}
