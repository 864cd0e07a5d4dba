// Package app wires the rooms together and runs them: it is the only place
// that knows them all, and it holds no rule of its own.
package app
