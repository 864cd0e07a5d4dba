package app_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/breakwater-llm/breakwater/"

// rule says what a room may import of ours, beside llm, and why not more.
type rule struct {
	room string
	may  []string
	why  string
}

// arrows is the house: a room imports what its line names, and llm, and nothing
// else of ours. A room covers its sub-folders unless they have their own line.
var arrows = []rule{
	{"internal/llm", nil, "the words are shared by all rooms, so they depend on none"},
	{"internal/sse", nil, "an event stream is pure I/O and knows no dialect"},
	{"internal/jsonscan", nil, "a JSON text is bytes and knows no dialect"},
	{"internal/config", nil, "what people declare is read without knowing who uses it"},
	{"db", nil, "migrations are files"},
	{"internal/cache", nil, "bytes that expire have no meaning here; no room's word is in it"},
	{"internal/idempotency", []string{"internal/cache"}, "it keeps bytes under names; what they are answers to, its user knows"},
	{"internal/breaker", []string{"internal/cache"}, "the breaker guards any dependency; no provider word is in it; replicas share circuits through the cache"},
	{"internal/breaker/grpcbreaker", []string{"internal/breaker"}, "the same circuits around a gRPC client; whose client it is, its user knows"},
	{"internal/contextasm", []string{"internal/breaker"}, "it asks behind a circuit; what becomes of the answer is the pipeline's matter"},
	{"internal/contextasm/contextpb", nil, "it is what both sides say to each other, and nothing else"},
	{"internal/postgres", []string{"db"}, "the driver's border knows no table's meaning"},
	{"internal/wire", []string{"internal/sse", "internal/jsonscan"}, "a dialect is bytes in, bytes out; no dialect imports another"},
	{"internal/telemetry", []string{"internal/breaker"}, "it records breaker events, so it knows their type; SQL only in repository.go"},
	{"internal/runs", []string{"internal/breaker"}, "it reads breaker events back, so it knows their type; SQL only in repository.go"},
	{"internal/health", nil, "scores are a read model over attempts; SQL only in repository.go"},
	{"internal/credential", nil, "a text that proves something does not know what, nor where its hash is kept"},
	{"internal/keys", []string{"internal/credential"}, "it says who calls and what they may; what a limit does is the budget's matter; SQL only in repository.go"},
	{"internal/operators", []string{"internal/breaker", "internal/credential"}, "it keeps what people decide about circuits, so it knows their commands; SQL only in repository.go"},
	{"internal/usage", []string{"internal/budget"}, "it reads what calls used and answers the ledger's Books; SQL only in repository.go"},
	{"internal/budget", []string{"internal/cache"}, "money is arithmetic over usage; what may be spent is counted on the cache, so that replicas share it"},
	{"internal/pricelist", []string{"internal/config", "internal/budget"}, "a price is found in what people declare, and made ready for sums"},
	{"internal/responses", []string{"internal/cache"}, "it keeps answers under keys; whose they are and what they are worth is the pipeline's matter"},
	{"internal/pipeline", []string{"internal/breaker"}, "it reaches recorder, prices, health order and providers through interfaces it declares"},
	{"internal/prober", []string{"internal/breaker"}, "it ends permits by what came of its questions; how they are put and sent only app knows"},
	{"internal/provider", []string{"internal/wire", "internal/sse"}, "an upstream client knows nothing of what wraps it"},
	{"internal/api", []string{"internal/wire", "internal/sse", "internal/health", "internal/runs", "internal/breaker", "internal/budget", "internal/telemetry", "internal/operators", "internal/keys", "internal/usage"},
		"the surface reads types; it never reaches pipeline, provider or postgres, which only app wires"},
	{"internal/admin", []string{"internal/health", "internal/runs", "internal/breaker", "internal/budget", "internal/telemetry", "internal/usage", "web"},
		"a page reads types; it never reaches api, pipeline, provider or postgres"},
	{"web", nil, "templates show view models, which hold no domain types"},
	{"internal/app", []string{"*"}, "only app wires"},
	{"cmd/server", []string{"*"}, "a subcommand uses app, config and what it needs"},
}

// storage may be imported only by these files: the border of each room.
const dbgen = "internal/postgres/dbgen"

// libraries that belong to certain rooms only.
var libraries = map[string][]string{
	"github.com/labstack/echo/v4":                {"internal/api", "internal/admin", "internal/app"},
	"github.com/prometheus/client_golang":        {"internal/telemetry", "internal/app"},
	"github.com/pressly/goose/v3":                {"internal/postgres"},
	"github.com/jackc/pgx/v5":                    {"internal/postgres", "internal/telemetry", "internal/runs", "internal/health", "internal/operators", "internal/keys", "internal/app"},
	"github.com/goccy/go-yaml":                   {"internal/config"},
	"github.com/invopop/jsonschema":              {"internal/config"},
	"github.com/fsnotify/fsnotify":               {"internal/config"},
	"github.com/redis/rueidis":                   {"internal/cache"},
	"github.com/maypok86/otter/v2":               {"internal/cache"},
	"github.com/a-h/templ":                       {"web", "internal/admin"},
	"github.com/PuerkitoBio/goquery":             nil,
	"github.com/chromedp":                        nil,
	"github.com/alecthomas/kong":                 {"cmd/server"},
	"github.com/go-json-experiment/json":         {"internal/jsonscan", "internal/wire", "internal/provider", "internal/api", "internal/config", "internal/pricelist"},
	"google.golang.org/grpc":                     {"internal/breaker/grpcbreaker", "internal/contextasm"},
	"google.golang.org/genproto/googleapis/rpc":  {"internal/breaker/grpcbreaker"},
	"google.golang.org/protobuf":                 {"internal/breaker/grpcbreaker", "internal/contextasm/contextpb"},
	"github.com/openai/openai-go/v3":             nil, // tests only
	"pgregory.net/rapid":                         nil,
	"go.uber.org/goleak":                         nil,
	"github.com/google/go-cmp":                   nil,
	"github.com/rogpeppe/go-internal/testscript": nil,
}

func TestRoomsImportOnlyWhatTheirLineNames(t *testing.T) {
	t.Parallel()
	forEachImport(t, func(file, room, imported string) {
		if ours, ok := strings.CutPrefix(imported, module); ok {
			checkArrow(t, file, room, ours)
			return
		}
		checkLibrary(t, file, room, imported)
	})
}

func checkArrow(t *testing.T, file, room, imported string) {
	t.Helper()
	r, ok := ruleFor(room)
	if !ok {
		t.Errorf("%s: no line for this room; add one to arrows with its reason", file)
		return
	}
	switch {
	case within(imported, "internal/llm"), within(imported, r.room), slices.Contains(r.may, "*"):
	case imported == dbgen && filepath.Base(file) == "repository.go":
	case slices.ContainsFunc(r.may, func(may string) bool { return within(imported, may) }):
	case imported == "internal/postgres" && filepath.Base(file) == "repository.go":
	default:
		t.Errorf("%s imports %s: %s may import %v and llm; %s", file, imported, r.room, r.may, r.why)
	}
}

func checkLibrary(t *testing.T, file, room, imported string) {
	t.Helper()
	for library, rooms := range libraries {
		if !within(imported, library) {
			continue
		}
		if !slices.ContainsFunc(rooms, func(r string) bool { return within(room, r) }) {
			t.Errorf("%s imports %s, which belongs to %v only", file, library, rooms)
		}
	}
}

func TestNoDialectImportsAnother(t *testing.T) {
	t.Parallel()
	forEachImport(t, func(file, room, imported string) {
		ours, _ := strings.CutPrefix(imported, module)
		from, isWire := strings.CutPrefix(room, "internal/wire/")
		to, toWire := strings.CutPrefix(ours, "internal/wire/")
		if isWire && toWire && from != to && to != "chat" {
			t.Errorf("%s: dialect %s imports dialect %s", file, from, to)
		}
	})
}

func ruleFor(room string) (rule, bool) {
	var best rule
	for _, r := range arrows {
		if within(room, r.room) && len(r.room) > len(best.room) {
			best = r
		}
	}
	return best, best.room != ""
}

func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// forEachImport calls visit for every import of every Go file that is neither
// a test nor part of a test suite.
func forEachImport(t *testing.T, visit func(file, room, imported string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	seen := 0
	for _, top := range []string{"cmd", "db", "internal", "web"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			room := filepath.ToSlash(filepath.Dir(rel))
			if strings.HasSuffix(rel, "_test.go") || strings.HasSuffix(room, "test") {
				return nil
			}
			seen++
			return visitImports(path, func(imported string) { visit(rel, room, imported) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Fatal("no Go file found: the test looks in the wrong place")
	}
}

func visitImports(path string, visit func(string)) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		visit(imported)
	}
	return nil
}
