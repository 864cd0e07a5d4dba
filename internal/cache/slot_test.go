package cache_test

import (
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache"
	"github.com/breakwater-llm/breakwater/internal/cache/redistest"
	"pgregory.net/rapid"
)

func TestSlotIsTheOneOfTheClusterSpecification(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, key string
		want      uint16
	}{
		{"the specification's check value", "123456789", 0x31C3},
		{"no key", "", 0},
		{"a tag", "a{123456789}b", 0x31C3},
		{"the first of two tags", "{123456789}{other}", 0x31C3},
		{"what follows the first brace", "a{{123456789}", cache.Slot("{123456789")},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := cache.Slot(row.key); got != row.want {
				t.Errorf("slot of %q: got %d, want %d", row.key, got, row.want)
			}
		})
	}
}

func TestSlotIsTheServers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	key := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("ab{}{}")), 0, 8, -1), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		key := key.Draw(t, "key")
		want, err := server.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(cache.Slot(key)); got != want {
			t.Fatalf("slot of %q: got %d, want %v", key, got, want)
		}
	})
}
