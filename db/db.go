// Package db carries the migrations inside the binary. It knows nothing of how
// they are run; the queries beside them are read by sqlc, not by the program.
package db

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the goose files in their order, at the root of the returned
// file system.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		// Only an invalid path makes Sub fail, and this one is a constant.
		panic(err)
	}
	return sub
}
