// Package contextpb is what a gateway and a context assembler say to each other:
// context.proto, and the Go that is made of it. It holds nothing else.
package contextpb
