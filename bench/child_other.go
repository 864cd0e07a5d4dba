//go:build !linux

package main

import "os/exec"

// bindToParent does nothing where a process cannot be bound to another.
func bindToParent(*exec.Cmd) {}
