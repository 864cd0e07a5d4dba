package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/breakwater-llm/breakwater/internal/app/apptest"
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

// TestGatewayScripts runs the commands for a running gateway against one, whose
// admin listener is in BREAKWATER_URL. Each script has a gateway of its own.
func TestGatewayScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/gateway",
		Setup: func(env *testscript.Env) error {
			gateway := apptest.Start(env.T().(testing.TB), declaredTargets)
			env.Setenv("BREAKWATER_URL", gateway.AdminURL)
			env.Setenv("DATA_URL", gateway.URL)
			return nil
		},
	})
}

// declaredTargets are two targets that nobody calls.
const declaredTargets = `
providers:
  alpha: {kind: openai, base_url: "http://127.0.0.1:1/v1", region: r1, api_key: sk-1, models: {m1: {}}}
  beta: {kind: openai, base_url: "http://127.0.0.1:1/v1", region: r2, api_key: sk-2, models: {vendor/m2: {}}}
configurations:
  chat: {targets: [{provider: alpha, model: m1}, {provider: beta, model: vendor/m2}]}
`

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
