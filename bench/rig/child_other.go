//go:build !linux

package rig

import "os/exec"

// bindToParent does nothing where a process cannot be bound to another.
func bindToParent(*exec.Cmd) {}
