package postgres

import (
	"errors"
	"fmt"
	"strings"
)

// unreadable says why an address cannot be read, without the address: the driver
// shows it with what it takes for the password blotted out, which of a malformed
// one is not all of it.
func unreadable(err error) error {
	why := "it is malformed"
	// The cause stays as long as it quotes nothing, which could be a part of the
	// password, too.
	if cause := errors.Unwrap(err); cause != nil && !strings.ContainsAny(cause.Error(), "\"`") {
		why = cause.Error()
	}
	return fmt.Errorf("read the database's address: %s; write postgres://user:password@host:5432/name and escape a password's reserved characters, such as %%40 for @", why)
}
