package cache_test

import (
	"strings"
	"testing"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

func TestBadURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no scheme":         "user:s3cret@host:6379",
		"foreign scheme":    "http://user:s3cret@host",
		"no host":           "redis://user:s3cret@",
		"database no digit": "redis://user:s3cret@host/s3cret",
		"negative database": "redis://user:s3cret@host/-1",
		"odd parameter":     "redis://user:s3cret@host?db=1",
		"unescaped hash":    "redis://user:s3cret#x@host",
		"unescaped slash":   "redis://user:s3cret/x@host",
		"odd port":          "redis://user:pass@host:s3cret",
		"port out of range": "redis://user:s3cret@host:70000",
		"unescaped query":   "redis://user:1?s3cret@host",
		"a number before #": "redis://user:1#s3cret@host",
		"node with a user":  "redis://user@host?addr=user:s3cret@other:1",
		"node out of range": "redis://user:s3cret@host?addr=other:0",
		"empty":             "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := cache.OpenValkey(url, cache.ValkeyConfig{})
			if err == nil {
				closeCache(t, v)
				t.Fatal("got no error")
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestOpenChoosesByURL(t *testing.T) {
	t.Parallel()
	if c, err := cache.Open("", cache.Config{}); err != nil {
		t.Error(err)
	} else if _, ok := c.(*cache.Memory); !ok {
		t.Errorf("no URL: got %T, want memory", c)
	} else {
		closeCache(t, c)
	}
	for _, url := range []string{
		"redis://127.0.0.1:1", "rediss://127.0.0.1:1", "valkey://127.0.0.1:1/3", "valkeys://user:p%40ss@127.0.0.1:1/",
		"redis://[::1]:1", "redis://127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3",
	} {
		c, err := cache.Open(url, cache.Config{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if _, ok := c.(*cache.Valkey); !ok {
			t.Errorf("%s: got %T, want a server's", url, c)
		}
		closeCache(t, c)
	}
}
