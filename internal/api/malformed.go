package api

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// malformed tells an operator what is wrong with a JSON body and where, in words
// about the operator's own bytes: how the gateway holds them is nobody's matter.
func malformed(err error) *fault {
	return &fault{row: rowInvalidJSON, message: fmt.Sprintf("The body is not what is expected here: %s.", wrongIn(err))}
}

func wrongIn(err error) string {
	var meaning *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("%q is there twice", syntax.JSONPointer)
	case errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("it is no JSON from byte %d on", syntax.ByteOffset)
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &meaning):
		return fmt.Sprintf("there is no member %q", meaning.JSONPointer)
	case errors.As(err, &meaning) && meaning.JSONPointer == "":
		return "it is no object"
	case errors.As(err, &meaning):
		return fmt.Sprintf("%q is of the wrong kind or out of range", meaning.JSONPointer)
	default:
		return "it ends before the JSON does"
	}
}
