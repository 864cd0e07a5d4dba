package config

import "strings"

// Database is the Postgres that keeps telemetry.
type Database struct {
	Private  bool   `yaml:"private" doc:"true = a Postgres that the gateway starts itself; not together with url."`
	URL      Secret `yaml:"url,omitempty" doc:"Postgres to connect to; required unless private. No environment variable is read by itself: write ${DATABASE_URL}."`
	DataDir  string `yaml:"data_dir" check:"nonempty" doc:"Where the private server keeps its data."`
	MaxConns int    `yaml:"max_conns" check:"min=1,max=10000" doc:"Most connections held at once."`
	Migrate  string `yaml:"migrate" check:"oneof=auto|verify" doc:"auto = apply pending migrations at start; verify = refuse to start on an old schema."`
}

func defaultDatabase(root bool) Database {
	d := Database{DataDir: ".breakwater", MaxConns: 8, Migrate: "auto"}
	if root {
		d.DataDir = "/var/lib/breakwater"
	}
	return d
}

func (d Database) check(r *report) {
	if !r.sound("database", "database.private", "database.url") {
		return
	}
	switch url := d.URL.Reveal(); {
	case d.Private && url != "":
		r.fault("database.url", "is set together with database.private", "keep one of the two")
	case !d.Private && url == "":
		r.fault("database.url", "is missing", "name a Postgres, such as ${DATABASE_URL}, or write private: true")
	case !d.Private && !isPostgres(url):
		r.fault("database.url", "is not the address of a Postgres", "write postgres://user:password@host:5432/name; a password's reserved characters are escaped, such as %40 for @ and %2F for /")
	}
}

// isPostgres accepts an address and the driver's other form, "host=… user=…".
func isPostgres(url string) bool {
	scheme, rest, isURL := strings.Cut(url, "://")
	if isURL && !strings.ContainsAny(scheme, " =") {
		return (scheme == "postgres" || scheme == "postgresql") && !endsInPassword(rest)
	}
	return strings.Contains(url, "=")
}

// endsInPassword reports whether host and port of an address are in truth a user
// and what stands before a slash in the password, as in 12/34 of user:12/34@host.
// Its rest would be taken for the database's name, which errors show.
func endsInPassword(rest string) bool {
	authority, path, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(path, "?")
	return !strings.Contains(authority, "@") && strings.Contains(name, "@")
}
