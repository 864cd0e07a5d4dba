package keys

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

const (
	// maxIssued bounds how many keys are told from guesses without a look-up, the
	// newest of those there are: some ten megabytes.
	maxIssued = 100_000
	// readEvery is how often all of them are read anew, which drops those whose
	// time is up. What is minted and revoked in between is followed.
	readEvery = time.Hour
	// readPause is how long a failed reading is not tried again.
	readPause = 5 * time.Second
	// readTimeout bounds one reading. It is shorter than overlap, so that what was
	// minted meanwhile is heard of after it.
	readTimeout = 20 * time.Second
)

// proof is what tells a key from a guess.
type proof struct {
	prefix string
	hash   []byte
}

// issued are the keys that the database holds, whether or not they were ever used
// here. They open nothing by themselves: they say for which texts a look-up is
// worth its while, however many guesses come from the same address.
type issued struct {
	mu     sync.RWMutex
	hashes map[string][sha256.Size]byte // of secrets, by prefix
}

func newIssued() *issued { return &issued{hashes: map[string][sha256.Size]byte{}} }

// holds reports whether a text, prefix and secret, is one of them.
func (i *issued) holds(given credential.Text) bool {
	i.mu.RLock()
	hash := i.hashes[given.Prefix] // nothing has the hash that is all zero
	i.mu.RUnlock()
	return given.Proves(hash[:])
}

func (i *issued) add(all ...proof) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range all {
		if len(i.hashes) < maxIssued {
			i.hashes[p.prefix] = [sha256.Size]byte(p.hash)
		}
	}
}

func (i *issued) drop(prefix string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.hashes, prefix)
}

// replace takes others in place of all.
func (i *issued) replace(all []proof) {
	fresh := newIssued()
	fresh.add(all...)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hashes = fresh.hashes
}

// readIssued reads which keys there are, again and again.
func (k *Keys) readIssued() {
	for {
		pause := readEvery
		if err := k.readAll(); err != nil {
			pause = readPause // that the database is away is logged by who follows it
		}
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (k *Keys) readAll() error {
	ctx, cancel := context.WithTimeout(k.ctx, readTimeout)
	defer cancel()
	all, err := k.store.ListIssued(ctx, maxIssued)
	if err == nil {
		k.issued.replace(all)
	}
	return err
}
