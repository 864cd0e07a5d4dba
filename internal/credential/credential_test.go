package credential_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

var (
	keys   = credential.NewKind("bw_")
	tokens = credential.NewKind("bwo_")
)

func TestWhatIsMintedIsReadBack(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^bw_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}$`)
	seen := map[string]bool{}
	for range 200 {
		minted := keys.Mint()
		read, ok := keys.Parse(minted.Whole())
		if !form.MatchString(minted.Whole()) || !ok || read != minted {
			t.Fatalf("%s was minted in another form than is read", minted)
		}
		if seen[minted.Prefix] {
			t.Fatalf("the prefix %s was minted twice", minted.Prefix)
		}
		seen[minted.Prefix] = true
	}
}

func TestOnlyTheSecretProves(t *testing.T) {
	t.Parallel()
	minted, other := keys.Mint(), keys.Mint()
	if !minted.Proves(minted.Hash()) || minted.Proves(other.Hash()) || minted.Proves(nil) || minted.Proves(minted.Hash()[:31]) {
		t.Error("a secret proves something else than its own hash")
	}
}

func TestOtherFormsWereNeverMinted(t *testing.T) {
	t.Parallel()
	prefix, secret := strings.Repeat("p", 10), strings.Repeat("s", 43)
	for name, text := range map[string]string{
		"empty":          "",
		"marker":         "bw_",
		"other_kind":     "bwo_" + prefix + "_" + secret,
		"other_marker":   "sk-" + prefix + "_" + secret,
		"short_prefix":   "bw_" + prefix[1:] + "_" + secret,
		"short_secret":   "bw_" + prefix + "_" + secret[1:],
		"long_secret":    "bw_" + prefix + "_" + secret + "s",
		"no_separator":   "bw_" + prefix + "s" + secret,
		"two_separators": "bw_" + prefix[:9] + "__" + secret,
		"space":          "bw_" + prefix + "_" + secret[:42] + " ",
		"other_letters":  "bw_" + prefix + "_" + secret[:41] + "é",
		"nul":            "bw_" + prefix + "_\x00" + secret[1:],
	} {
		if read, ok := keys.Parse(text); ok {
			t.Errorf("%s: read as %s", name, read)
		}
	}
}

func TestASecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	minted := tokens.Mint()
	secret := strings.TrimPrefix(minted.Whole(), minted.Public()+"_")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if printed := fmt.Sprintf(verb, minted); strings.Contains(printed, secret) || !strings.Contains(printed, minted.Public()) {
			t.Errorf("%s prints something else than what is public", verb)
		}
	}
}

func TestACredentialIsNamedInManyWays(t *testing.T) {
	t.Parallel()
	minted := keys.Mint()
	for _, named := range []string{minted.Whole(), minted.Public(), minted.Prefix} {
		if got := keys.Named(named); got != minted.Prefix {
			t.Errorf("got the name %q, want the prefix", got)
		}
	}
	if got, want := keys.Named("0190-id"), "0190-id"; got != want {
		t.Errorf("got %q, want %q as it is", got, want)
	}
}

// What is read is what is written, and nothing else is read.
func FuzzParse(f *testing.F) {
	f.Add(keys.Mint().Whole())
	f.Add(tokens.Mint().Whole())
	f.Add("bw_")
	f.Add("bw_0123456789_\xff\x00")
	f.Fuzz(func(t *testing.T, s string) {
		read, ok := keys.Parse(s)
		if !ok {
			return
		}
		if read.Whole() != s {
			t.Errorf("%q is read as %q", s, read.Whole())
		}
		if !read.Proves(read.Hash()) || bytes.Contains(read.Hash(), []byte(read.Prefix)) {
			t.Errorf("the hash of %q is none", s)
		}
		if _, also := tokens.Parse(s); also {
			t.Errorf("%q is of two kinds", s)
		}
	})
}

func BenchmarkParseAndProve(b *testing.B) {
	minted := keys.Mint()
	whole, hash := minted.Whole(), minted.Hash()
	b.ReportAllocs()
	for b.Loop() {
		read, ok := keys.Parse(whole)
		if !ok || !read.Proves(hash) {
			b.Fatal("refused")
		}
	}
}
