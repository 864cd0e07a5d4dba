package private

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"
)

// owner is the database's superuser and the name of its one database.
const owner = "breakwater"

// ensureCluster makes the data directory's contents unless they are there. It
// makes them under another name first: what carries the final name is whole.
func ensureCluster(ctx context.Context, cfg Config, d door, p place) error {
	if _, err := os.Stat(p.cluster()); err == nil {
		return nil
	}
	began := time.Now()
	if err := initialise(ctx, cfg, d, p.unborn()); err != nil {
		return err
	}
	if err := os.Rename(p.unborn(), p.cluster()); err != nil {
		return fmt.Errorf("put the new database in place: %w", err)
	}
	if err := syncDir(p.root); err != nil {
		return fmt.Errorf("put the new database in place: %w", err)
	}
	cfg.Log.Info("private database created", "data_dir", p.root, "took", time.Since(began))
	return nil
}

func initialise(ctx context.Context, cfg Config, d door, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear a half-made database away: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the database's directory: %w", err)
	}
	if err := d.account.own(dir); err != nil {
		return fmt.Errorf("hand the database's directory to user %s: %w", d.account.name, err)
	}
	// Trust is safe because only the account and root can get at the socket.
	args := []string{"--username=" + owner, "--auth=trust", "--encoding=UTF8", "--locale=C"}
	if cfg.Volatile {
		args = append(args, "--no-sync")
	}
	cmd, done, err := d.command(ctx, "initdb", dir, args...)
	if err != nil {
		return err
	}
	defer done()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := run(cmd); err != nil {
		return fmt.Errorf("create the private database: %w: %s", err, lastLine(said.String()))
	}
	return nil
}

// syncDir makes a new name survive a crash of the machine.
func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}
