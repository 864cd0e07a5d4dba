package apptest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// asksPassword is the group of the roles whom the test server, which trusts all
// others, asks for a password.
const asksPassword = "asks_password"

// Role is a role of the test server that must say a password.
type Role struct {
	URL   string // of the database it was made for, with name and password
	name  string
	owner string // the same database as its owner reaches it
}

// NewRole makes a role that may do everything in a database of the test server
// once it has said its password, until the test ends.
func NewRole(t testing.TB, databaseURL, password string) *Role {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	r := &Role{name: "role_" + strings.ToLower(rand.Text()), owner: databaseURL}
	u.User = url.UserPassword(r.name, password)
	r.URL = u.String()
	r.askMembers(t)
	r.run(t, "CREATE ROLE "+r.name+" SUPERUSER LOGIN IN ROLE "+asksPassword)
	t.Cleanup(func() {
		r.run(t, "REASSIGN OWNED BY "+r.name+" TO current_user", "DROP OWNED BY "+r.name, "DROP ROLE "+r.name)
	})
	r.ChangePassword(t, password)
	return r
}

// askMembers has the server ask the group, if it does not yet: its files stay
// from one run of the tests to the next.
func (r *Role) askMembers(t testing.TB) {
	t.Helper()
	r.run(t, "DO $$ BEGIN CREATE ROLE "+asksPassword+"; EXCEPTION WHEN duplicate_object THEN END $$")
	file := r.rows(t, "SHOW hba_file")[0]
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rule := "local all +" + asksPassword + " scram-sha-256\n"
	if strings.HasPrefix(string(rules), rule) {
		return
	}
	if err := os.WriteFile(file, append([]byte(rule), rules...), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(t, "SELECT pg_reload_conf()")
}

// ChangePassword has the server refuse whoever says another one, and ends the
// role's connections.
func (r *Role) ChangePassword(t testing.TB, password string) {
	t.Helper()
	r.run(t, "ALTER ROLE "+r.name+" PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+r.name+"'")
}

// Tables returns every row of every table, as text, by table.
func (r *Role) Tables(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range r.rows(t, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") {
		all[name] = strings.Join(r.rows(t, `SELECT r::text FROM "`+name+`" r`), "\n")
	}
	return all
}

// run runs statements as the database's owner.
func (r *Role) run(t testing.TB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := r.query(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func (r *Role) rows(t testing.TB, sql string) []string {
	t.Helper()
	rows, err := r.query(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// query returns the rows of one statement, of which each is one text.
func (r *Role) query(sql string) ([]string, error) {
	ctx := context.Background() // roles are dropped when the test's own has ended
	conn, err := pgx.Connect(ctx, r.owner)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	found, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		if err != nil || len(values) == 0 {
			return "", err
		}
		text, _ := values[0].(string)
		return text, nil
	})
}
