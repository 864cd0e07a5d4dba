package openai

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The codes of a RequestError.
const (
	CodeInvalidJSON  = "invalid_json"
	CodeInvalidValue = "invalid_value"
)

// RequestError says why a request body is refused; its texts may be shown to
// the client.
type RequestError struct {
	Code    string // CodeInvalidJSON or CodeInvalidValue
	Param   string // the field, when one is to blame
	Message string
}

func (e *RequestError) Error() string { return e.Message }

func wrong(param, rule string) *RequestError {
	return &RequestError{Code: CodeInvalidValue, Param: param, Message: fmt.Sprintf("%s %s.", param, rule)}
}

// requestError says in a client's terms why a body is refused. The library says
// better than a scanner what is wrong with JSON; what it has nothing against is
// beyond the limits of the scanner.
func requestError(body []byte, err error) *RequestError {
	var refused *RequestError
	if errors.As(err, &refused) {
		return refused
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(json.Unmarshal(body, new(jsontext.Value), jsontext.AllowInvalidUTF8(true)), &syntax) {
		return &RequestError{Code: CodeInvalidJSON, Message: fmt.Sprintf("The body cannot be read: %v.", err)}
	}
	e := &RequestError{Code: CodeInvalidJSON, Message: fmt.Sprintf("The body is not valid JSON: %v at byte %d.", syntax.Err, syntax.ByteOffset)}
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		e.Param = strings.ReplaceAll(strings.TrimPrefix(string(syntax.JSONPointer), "/"), "/", ".")
		e.Message = fmt.Sprintf("The body names %q twice.", e.Param)
	}
	return e
}
