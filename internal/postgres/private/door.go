package private

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// door is how a server's program gets into the directory of its data.
type door struct {
	install install
	account account
	// handed is true when the account cannot walk there, since a directory on
	// the way is closed to it: then the open directory is handed to it.
	handed bool
}

// openDoor finds out which way leads in. Root keeps its data where it likes,
// also below its own home, and the server runs as somebody else.
func openDoor(ctx context.Context, i install, acc account, p place) (door, error) {
	d := door{install: i, account: acc}
	err := d.enter(ctx, p.root)
	if err == nil {
		return d, nil
	}
	if err := d.enter(ctx, "/"); err != nil {
		return door{}, fmt.Errorf("user %s cannot run %s: %w", acc.name, i.binary("postgres"), err)
	}
	if !canHand {
		return door{}, fmt.Errorf("user %s, as whom postgres runs, may not enter %s: set database.data_dir to a place that user may enter", acc.name, d.firstClosed(ctx, p.root))
	}
	d.handed = true
	return d, nil
}

// command prepares a program whose data lies in dir. The returned function
// must be called once the program has started or failed to.
func (d door) command(ctx context.Context, program, dir string, args ...string) (*exec.Cmd, func(), error) {
	cmd := exec.CommandContext(ctx, d.install.binary(program), "-D", dir)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(d.account)
	done := func() {}
	if d.handed {
		opened, err := os.Open(dir)
		if err != nil {
			return nil, nil, fmt.Errorf("open the database's directory: %w", err)
		}
		cmd.Args[2], cmd.Dir, cmd.ExtraFiles = handedDir, "/", []*os.File{opened}
		done = func() { opened.Close() }
	}
	cmd.Args = append(cmd.Args, args...)
	return cmd, done, nil
}

// enter finds out whether the account can run the server in a directory by
// doing so: only the kernel knows every rule that may stand against it.
func (d door) enter(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, d.install.binary("postgres"), "--version")
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(d.account)
	return run(cmd)
}

// firstClosed is the first directory on the way that is closed to the account.
func (d door) firstClosed(ctx context.Context, dir string) string {
	for _, step := range steps(dir) {
		if d.enter(ctx, step) != nil {
			return step
		}
	}
	return dir
}

// steps lists an absolute path's directories from the top down, itself last.
func steps(dir string) []string {
	var out []string
	for at, r := range dir {
		if at > 0 && r == filepath.Separator {
			out = append(out, dir[:at])
		}
	}
	return append(out, strings.TrimRight(dir, "/"))
}

// environment is all that the server gets of ours: the gateway's own holds
// its secrets, and variables named PG… would change what the server does.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
