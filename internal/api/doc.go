// Package api is the gateway's two HTTP surfaces: the data plane that apps call
// and the operator API beside it, one file per endpoint family. It turns
// requests into calls and results into answers, and errors.go is the only place
// that knows which failure becomes which status.
//
// It must not know how a call is served: the pipeline, the providers and the
// database reach it as functions and small interfaces that app hands in.
package api
