package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/breakwater-llm/breakwater/internal/app"
	"github.com/breakwater-llm/breakwater/internal/config"
)

type serveCmd struct {
	configFlag
	Try bool `help:"On a private database: keep an API key in database.data_dir, and print it with a call that works."`
}

// tryKeyFile is where the key for --try is kept; empty where there is none.
func (c serveCmd) tryKeyFile(cfg *config.Config) string {
	if !c.Try || !cfg.Database.Private || cfg.Auth.Mode == config.AuthOpen {
		return ""
	}
	return filepath.Join(cfg.Database.DataDir, "try-key")
}

// Run runs the gateway until a signal, reloads its configuration on SIGHUP and
// when the file changes, and prints where it is and how to call
// it once it listens.
func (c serveCmd) Run(ctx context.Context, std streams) error {
	// Before the file is read, so that no change of it goes unseen.
	triggers := watchConfiguration(c.Path)
	defer triggers.stop()
	cfg, err := c.load()
	if err != nil {
		return err
	}
	log, level := app.NewLogger(cfg.Log, std.Err)
	stdlog.SetFlags(0)
	stdlog.SetOutput(app.StandardLog(log)) // what the HTTP client says is not all ours to show
	if triggers.unwatched != nil {
		log.Warn("configuration file is not watched, send SIGHUP after a change", "error", triggers.unwatched)
	}
	return app.Run(ctx, cfg, app.Options{
		Version: version,
		Commit:  commit,
		Log:     log,
		Level:   level,
		TryKey:  c.tryKeyFile(cfg),
		Reload:  func() (*config.Config, error) { return config.Load(c.Path) },
		Reloads: triggers.reloads,
		Listening: func(data, admin string) {
			announce(std.Err, data, admin)
			fmt.Fprint(std.Out, greeting(cfg, c.Path, c.tryKeyFile(cfg), data, admin))
		},
	})
}

// announce writes the addresses as one line of JSON whatever the log's format
// is, so that a program which let the kernel choose the ports can read them.
func announce(w io.Writer, data, admin string) {
	slog.New(slog.NewJSONHandler(w, nil)).Info("listening", "listen", data, "admin_listen", admin)
}

// greeting is what a person sees who started the gateway: the URLs, and a call
// that works as it is printed.
func greeting(cfg *config.Config, path, keyFile, data, admin string) string {
	text := fmt.Sprintf("Breakwater %s is running.\n\n  API    http://%s/v1\n  Admin  http://%s\n", version, data, admin)
	if cfg.Database.Private {
		text += fmt.Sprintf("  Data   %s\n", absolute(cfg.Database.DataDir))
	}
	key := strings.TrimSpace(readIfAny(keyFile))
	if key != "" {
		text += fmt.Sprintf("  Key    %s, kept in %s\n", key, absolute(keyFile))
	}
	model, ok := firstModel(cfg)
	if !ok {
		return text + "\nNo configuration is declared, so there is nothing to call yet.\n"
	}
	mint, header := "", ""
	switch {
	case cfg.Auth.Mode == config.AuthOpen:
	case key != "":
		header = fmt.Sprintf(` -H 'Authorization: Bearer %s'`, key)
	default:
		mint = fmt.Sprintf("  KEY=$(%s keys create NAME --config %s)\n", os.Args[0], path) // which may not be on the PATH
		header = ` -H "Authorization: Bearer $KEY"`
	}
	return text + fmt.Sprintf(`
Try it:

%s  curl http://%s/v1/chat/completions%s -H 'Content-Type: application/json' \
    -d '{"model":"%s","messages":[{"role":"user","content":"hello"}]}'

Stop it with Ctrl-C.
`, mint, data, header, model)
}

// readIfAny returns what a file holds; nothing where there is none to read.
func readIfAny(file string) string {
	text, _ := os.ReadFile(file) // the log says why there is none
	return string(text)
}

// firstModel returns something that clients may name.
func firstModel(cfg *config.Config) (string, bool) {
	if names := slices.Sorted(maps.Keys(cfg.Configurations)); len(names) > 0 {
		return names[0], true
	}
	if targets := cfg.AllTargets(); cfg.DirectTargets && len(targets) > 0 {
		return targets[0].Provider + "/" + targets[0].Model, true
	}
	return "", false
}

// absolute returns a path as it is from anywhere, where that can be found out.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
