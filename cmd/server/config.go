package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/breakwater-llm/breakwater/internal/config"
)

// configFlag is the flag that every command with a configuration has.
type configFlag struct {
	Path string `name:"config" default:"breakwater.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
}

// load reads the configuration. A file that is missing or has faults is the
// caller's to mend.
func (f configFlag) load() (*config.Config, error) {
	cfg, err := config.Load(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError{fmt.Errorf("%s does not exist: name a file with --config, for example examples/quickstart.yaml", f.Path)}
	case isFaults(err):
		return nil, usageError{err}
	case err != nil:
		return nil, usageError{fmt.Errorf("%w: name a file that this user may read with --config", err)}
	}
	return cfg, nil
}

func isFaults(err error) bool {
	var faults config.Faults
	return errors.As(err, &faults)
}

type configCmd struct {
	Check  configCheckCmd  `cmd:"" help:"Report every fault of a file, each with its line and path."`
	Show   configShowCmd   `cmd:"" help:"Print the effective configuration, secrets masked."`
	Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the file."`
}

// configFile is for commands about the file itself, which may be named without
// a flag, too.
type configFile struct {
	configFlag
	File string `arg:"" optional:"" help:"Configuration file; the same as --config."`
}

func (f configFile) load() (*config.Config, error) {
	if f.File != "" {
		f.Path = f.File
	}
	return f.configFlag.load()
}

type configCheckCmd struct{ configFile }

// Run prints one line per fault and fails, or says that the file is good.
func (c configCheckCmd) Run(std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "%s is good: %d configuration(s), %d target(s)\n", cmp.Or(c.File, c.Path), len(cfg.Configurations), len(cfg.AllTargets()))
	return err
}

type configShowCmd struct {
	configFile
	Circuit string `placeholder:"KEY" help:"Print what governs one circuit, provider/model/region, and every setting it comes to."`
}

// Run prints the configuration as YAML, defaults filled in, or the part of it
// that governs one circuit.
func (c configShowCmd) Run(std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if c.Circuit == "" {
		return cfg.Show(std.Out)
	}
	if err := cfg.ShowCircuit(std.Out, c.Circuit); err != nil {
		return usageError{err}
	}
	return nil
}

type configSchemaCmd struct{}

// Run prints the schema.
func (configSchemaCmd) Run(std streams) error {
	schema, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, string(schema))
	return err
}
