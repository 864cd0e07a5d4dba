package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/keys"
)

// tryKeyName is what the key is called that a newcomer tries the gateway with.
const tryKeyName = "try"

// keepTryKey sees to it that a file holds a key that is good, so that whoever
// may read the file can call. A key that has been lost or ended is replaced.
func keepTryKey(ctx context.Context, all *keys.Keys, file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the key to try the gateway with: %w", err)
	}
	switch _, err := all.Verify(ctx, strings.TrimSpace(string(text)), netip.Addr{}); {
	case err == nil:
		return nil
	case !errors.Is(err, keys.ErrInvalid):
		return fmt.Errorf("check the key to try the gateway with: %w", err)
	}
	if err := endTryKey(ctx, all); err != nil {
		return err
	}
	_, minted, err := all.Create(ctx, keys.Wanted{Name: tryKeyName, Owner: "whoever reads " + filepath.Base(file)})
	if err != nil {
		return fmt.Errorf("mint a key to try the gateway with: %w", err)
	}
	return writePrivate(file, minted+"\n")
}

// endTryKey revokes the key whose text is lost.
func endTryKey(ctx context.Context, all *keys.Keys) error {
	list, err := all.List(ctx)
	if err != nil {
		return err
	}
	for _, key := range list {
		if key.Name != tryKeyName || key.RevokedAt != nil {
			continue
		}
		if _, _, err := all.Revoke(ctx, key.ID.String()); err != nil {
			return err
		}
	}
	return nil
}

// writePrivate replaces a file, which only its owner may read, as a whole.
func writePrivate(file, text string) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("keep the key to try the gateway with: %w", err)
	}
	_, err = temporary.WriteString(text)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("keep the key to try the gateway with: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
