package config

import "testing"

func TestCircuitsAreSharedWhereThereIsACache(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ url, store, want string }{
		{"", "", StoreLocal},
		{"redis://localhost", "", StoreCached},
		{"redis://localhost", StoreLocal, StoreLocal},
		{"redis://localhost", StoreStrict, StoreStrict},
	} {
		c := Config{Cache: Cache{URL: NewSecret(row.url)}}
		if got := c.CircuitStore(CircuitBreaker{Store: row.store}); got != row.want {
			t.Errorf("url %q and store %q: got %s, want %s", row.url, row.store, got, row.want)
		}
	}
}
