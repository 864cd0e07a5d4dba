package main

import (
	"fmt"
	"runtime"
)

type versionCmd struct{}

// Run prints version, commit and Go version in one line.
func (versionCmd) Run(std streams) error {
	_, err := fmt.Fprintln(std.Out, describeVersion())
	return err
}

func describeVersion() string {
	return fmt.Sprintf("breakwater %s (commit %s, %s)", version, commit, runtime.Version())
}
