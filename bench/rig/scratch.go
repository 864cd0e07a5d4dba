package rig

import (
	"fmt"
	"os"
)

// InScratch gives do a directory of its own, which is gone afterwards. When do
// fails it is kept, and the error says where.
func InScratch(prefix string, do func(dir string) error) error {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // Postgres may run as another user
		return err
	}
	if err := do(dir); err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}
