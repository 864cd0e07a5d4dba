// Package operators knows who may look at the gateway and who may steer it,
// operator tokens and their roles, and keeps what people decide about circuits,
// so that a decision outlives restarts and reaches every gateway of one
// database. It must not know HTTP, nor how a circuit does what it is told.
package operators

import (
	"errors"

	"github.com/google/uuid"

	"github.com/breakwater-llm/breakwater/internal/credential"
)

// Role is what an operator may do.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // reads everything
	RoleOperator Role = "operator" // and changes what runs
)

// Operator is who makes a request.
type Operator struct {
	Name string // the token's; events and overrides name it as their actor
	Role Role
}

// MayChange reports whether the operator may change what runs.
func (o Operator) MayChange() bool { return o.Role == RoleOperator }

// ActorLocal is the actor of changes that come without a token from the
// gateway's own machine.
const ActorLocal = "local"

// Local is who calls from the gateway's own machine without a token, while
// there is no sign-in.
func Local() Operator { return Operator{Name: ActorLocal, Role: RoleOperator} }

// Token is an operator token as it is kept, without its secret.
type Token struct {
	ID     uuid.UUID
	Name   string
	Role   Role
	Prefix string // begins every token's text; public
	credential.Life
}

var (
	// ErrInvalidToken says that a token is none, or not any more.
	ErrInvalidToken = errors.New("operator token is unknown, expired or revoked")
	// ErrUnchecked says that the database is away, so that nobody can tell what
	// a token is worth.
	ErrUnchecked = errors.New("operator token cannot be checked now")
	// ErrTokenNotFound says that no token has the id or prefix asked for.
	ErrTokenNotFound = errors.New("operator token not found")
	// ErrNameTaken says that a live token has the name.
	ErrNameTaken = errors.New("operator token name is taken")
	// ErrInvalidName says that no token may have the name.
	ErrInvalidName = errors.New("operator token name is not allowed")
)
