package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/postgres"
)

// An address that cannot be read is refused by every way into the database, and
// none of them shows what is in it.
func TestAnUnreadableAddressIsNotShown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ address, says string }{
		"a slash in the password":  {"postgres://u:s3cret/s3cret@h/d", "malformed"},
		"a percent sign":           {"postgres://u:s3cret%zz@h/d", "percent-encoded"},
		"a space":                  {"postgres://u:s3cret s3cret@h/d", "spaces"},
		"a port out of range":      {"postgres://u:s3cret@h:99999/d", "malformed"},
		"a setting":                {"postgres://h/d?user=u&password=s3cret&sslmode=bad", "sslmode is invalid"},
		"a setting's value":        {"postgres://u:p@h/d?connect_timeout=s3cret", "malformed"},
		"pairs with spaces":        {"host=h user=u password = s3cret sslmode=bad", "sslmode is invalid"},
		"pairs with escapes":       {`host=h user=u password='a\' s3cret' sslmode=bad`, "sslmode is invalid"},
		"pairs with no quotes":     {"host=h user=u password=a s3cret", "keyword/value"},
		"pairs with double quotes": {`host=h user=u password="a s3cret" sslmode=bad`, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways := map[string]func(context.Context) error{
				"open": func(ctx context.Context) error {
					_, err := postgres.Open(ctx, tt.address, postgres.Options{})
					return err
				},
				"migrate": func(ctx context.Context) error { _, err := postgres.Migrate(ctx, tt.address); return err },
				"verify":  func(ctx context.Context) error { return postgres.Verify(ctx, tt.address) },
			}
			for way, try := range ways {
				err := try(t.Context())
				if err == nil {
					t.Fatalf("%s takes it", way)
				}
				if got := err.Error(); strings.Contains(got, "s3cret") || !strings.Contains(got, tt.says) {
					t.Errorf("%s says %q, want it to say %q and nothing of the password", way, got, tt.says)
				}
			}
		})
	}
}
