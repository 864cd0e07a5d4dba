package config

import (
	"fmt"
	"io"
	"log/slog"
)

const masked = "***"

// Secret is text that shows itself to nobody who does not ask with Reveal:
// every verb of fmt, slog, JSON and YAML print ***, or nothing when it is empty.
type Secret struct{ text string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself.
func (s Secret) Reveal() string { return s.text }

// IsSet reports whether there is any text.
func (s Secret) IsSet() bool { return s.text != "" }

// String returns the mask.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return masked
}

// GoString returns the mask, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format writes the mask whatever the verb: %d or %x would otherwise look
// through to the text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText writes the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON writes the mask.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// MarshalYAML writes the mask.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }
