// Package rig is what programs share that run the real gateway and look at it
// from outside: processes of their own, a directory for the run, the gateway's
// metrics. It knows nothing of what is measured.
package rig
