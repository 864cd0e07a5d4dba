package main

import (
	"fmt"
	"runtime"
)

type versionCmd struct{}

// Run prints version, commit and Go version in one line.
func (versionCmd) Run(std streams) error {
	_, err := fmt.Fprintf(std.Out, "breakwater %s (commit %s, %s)\n", version, commit, runtime.Version())
	return err
}
