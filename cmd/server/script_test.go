package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	testscript.Main(postgrestest.Main(m), map[string]func(){"breakwater": main})
}

// TestScripts runs the commands as a user types them. Each script has a
// database of its own in DATABASE_URL, without any schema.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATABASE_URL", postgrestest.EmptyURL(env.T().(testing.TB)))
			return os.WriteFile(env.WorkDir+"/breakwater.yaml", []byte(smallConfig), 0o600)
		},
	})
}

// smallConfig is a small configuration that every script may use.
const smallConfig = `
server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}
database: {url: "${DATABASE_URL}"}
auth: {mode: open}
providers:
  alpha:
    kind: openai
    base_url: http://127.0.0.1:1/v1
    api_key: sk-very-secret
    models: {m1: {input: 1, output: 5}}
configurations:
  chat: {targets: [{provider: alpha, model: m1}]}
`
