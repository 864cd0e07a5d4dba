package private

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// reach checks that the account can run the server in a directory, by doing
// so: only the kernel knows every rule that may stand against it. The error
// names the first directory on the way that is closed to the account.
func reach(ctx context.Context, i install, acc account, dir string) error {
	if enter(ctx, i, acc, dir) == nil {
		return nil
	}
	if err := enter(ctx, i, acc, "/"); err != nil {
		return fmt.Errorf("user %s cannot run %s: %w", acc.name, i.binary("postgres"), err)
	}
	for _, step := range steps(dir) {
		if err := enter(ctx, i, acc, step); err != nil {
			return fmt.Errorf("user %s, as whom postgres runs, may not enter %s", acc.name, step)
		}
	}
	return nil
}

func enter(ctx context.Context, i install, acc account, dir string) error {
	cmd := exec.CommandContext(ctx, i.binary("postgres"), "--version")
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(acc)
	return run(cmd)
}

// steps lists an absolute path's directories from the top down.
func steps(dir string) []string {
	var out []string
	for at := 1; at < len(dir); {
		next := strings.IndexByte(dir[at:], filepath.Separator)
		if next < 0 {
			break
		}
		at += next
		out = append(out, dir[:at])
		at++
	}
	return append(out, dir)
}
