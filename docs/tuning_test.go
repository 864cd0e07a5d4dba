// Package docs_test holds the documents to what they say.
package docs_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-llm/breakwater/internal/config"
	"github.com/breakwater-llm/breakwater/internal/leaktest"
	"github.com/breakwater-llm/breakwater/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { leaktest.Main(postgrestest.Main(m)) }

var update = flag.Bool("update", false, "write what the queries print into tuning.md")

// aWeek is the made-up week that docs/tuning.md looks at: a fast model in
// bursts, with a bad minute; a thinking one, rarely called; and one on a machine
// of one's own, which was restarted once.
const aWeek = `
CREATE TABLE week PARTITION OF telemetry_attempts DEFAULT;
CREATE TABLE week_events PARTITION OF circuit_events DEFAULT;

CREATE FUNCTION attempt(target text[], back interval, failed boolean, took float8, first float8, answer bigint) RETURNS void LANGUAGE sql AS $$
	INSERT INTO telemetry_attempts (run_id, seq, started_at, finished_at, provider, model, region, outcome, failure_class, latency_ms, ttft_ms, output_tokens)
	SELECT gen_random_uuid(), 1, at - took * interval '1 ms', at, target[1], target[2], 'default',
		CASE WHEN failed THEN 'failure' ELSE 'success' END, CASE WHEN failed THEN 'server_error' END, took, first, answer
	FROM (SELECT date_bin('30 seconds', now(), 'epoch') - back AS at) AS moment
$$;

SELECT attempt('{openai,gpt-4.1-mini}', burst * interval '30 minutes' - call * interval '2 seconds',
	(burst = 200 AND call > 4) OR (burst * 24 + call) % 499 = 0,
	700 + 6000 * power((burst * 7919 + call * 104729) % 1000 / 1000.0, 4), 200 + 1500 * power((burst * 31 + call * 7) % 100 / 100.0, 6), NULL)
FROM generate_series(1, 335) burst, generate_series(0, 11) call;

SELECT attempt('{anthropic,claude-opus}', n * interval '10 minutes', n % 251 = 0,
	6000 + 20 * tokens + n * 37 % 100 * 150, NULL, tokens)
FROM (SELECT n, 200 + n * 7919 % 3000 AS tokens FROM generate_series(1, 1000) n) AS calls;

SELECT attempt('{local,"qwen3:8b"}', n * interval '200 seconds', n % 40 = 0 OR n BETWEEN 1500 AND 1503,
	2500 + 12 * tokens + n * 37 % 100 * 40, NULL, tokens)
FROM (SELECT n, 50 + n * 104729 % 700 AS tokens FROM generate_series(1, 3000) n) AS calls;

INSERT INTO telemetry_attempts (run_id, seq, started_at, finished_at, provider, model, region, outcome, failure_class, latency_ms, probe)
SELECT gen_random_uuid(), 1, now(), now(), 'openai', 'gpt-4.1-mini', 'default', outcome, class, 60000, probe
FROM (VALUES ('refused', 'circuit_open', NULL), ('neutral', 'cancelled', NULL), ('failure', 'connection', 'canary')) AS other (outcome, class, probe);

INSERT INTO circuit_events (node, boot_id, seq, at, provider, model, region, from_state, to_state, reason, counts, actor)
SELECT 'a', '00000000-0000-0000-0000-000000000001', row_number() OVER (), now() - interval '2 days' + s * interval '1 second', split_part(target, '/', 1), split_part(target, '/', 2), 'default', was, becomes, why, '{}', 'breaker'
FROM (VALUES
	(   0, 'openai/gpt-4.1-mini', 'closed', 'open', 'failure_rate'), (  31, 'openai/gpt-4.1-mini', 'open', 'half_open', 'half_open'),
	(  32, 'openai/gpt-4.1-mini', 'half_open', 'open', 'probe_failure'), (  95, 'openai/gpt-4.1-mini', 'open', 'half_open', 'half_open'),
	(  96, 'openai/gpt-4.1-mini', 'half_open', 'closed', 'probe_success'),
	(4000, 'openai/gpt-4.1-mini', 'closed', 'open', 'retry_after'), (4020, 'openai/gpt-4.1-mini', 'open', 'half_open', 'half_open'), (4021, 'openai/gpt-4.1-mini', 'half_open', 'closed', 'probe_success'),
	(   0, 'local/qwen3:8b', 'closed', 'open', 'consecutive'), (  12, 'local/qwen3:8b', 'open', 'half_open', 'half_open'), (  14, 'local/qwen3:8b', 'half_open', 'closed', 'probe_success'),
	(9000, 'local/qwen3:8b', 'closed', 'open', 'consecutive'), (9012, 'local/qwen3:8b', 'open', 'half_open', 'half_open'), (9013, 'local/qwen3:8b', 'half_open', 'open', 'probe_failure'),
	(9036, 'local/qwen3:8b', 'open', 'half_open', 'half_open'), (9038, 'local/qwen3:8b', 'half_open', 'closed', 'probe_success')
) AS step (s, target, was, becomes, why);
`

// pair is a query in the document, followed by what it prints.
var pair = regexp.MustCompile("(?s)```sql\n(.+?)```\n\n```text\n(.+?)```")

func TestTheQueriesPrintWhatTuningSays(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	if _, err := db.Exec(t.Context(), aWeek, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	pairs := pair.FindAllStringSubmatch(read(t, "tuning.md"), -1)
	if len(pairs) != 5 {
		t.Fatalf("found %d queries with their output, want 5", len(pairs))
	}
	for _, p := range pairs {
		got := printed(t, db, p[1])
		if *update {
			text := strings.Replace(read(t, "tuning.md"), p[0], "```sql\n"+p[1]+"```\n\n```text\n"+got+"```", 1)
			if err := os.WriteFile("tuning.md", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(p[2], got); diff != "" {
			t.Errorf("query:\n%s\n(-document +database):\n%s", p[1], diff)
		}
	}
}

// printed is the answer to a query, in columns.
func printed(t *testing.T, db *pgxpool.Pool, query string) string {
	t.Helper()
	found, err := db.Query(context.Background(), query, pgx.QueryExecModeSimpleProtocol) // which answers as text
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer found.Close()
	var table [][]string
	var head []string
	for _, field := range found.FieldDescriptions() {
		head = append(head, field.Name)
	}
	table = append(table, head)
	for found.Next() {
		var row []string
		for _, value := range found.RawValues() {
			row = append(row, string(value))
		}
		table = append(table, row)
	}
	if err := found.Err(); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	return inColumns(table)
}

func inColumns(table [][]string) string {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var text strings.Builder
	for _, row := range table {
		line := fmt.Sprintf("%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

// around completes what the document shows of a configuration.
const around = `auth: {mode: open}
database: {private: true}
providers:
  openai: {kind: openai, base_url: "https://api.openai.com/v1", api_key: sk, models: {gpt-4.1-mini: {}, o4-mini: {}, text-embedding-3-small: {}}}
  local: {kind: openai, base_url: "http://127.0.0.1:11434/v1", models: {"qwen3:8b": {}}}
configurations:
  chat: {targets: [{provider: openai, model: gpt-4.1-mini}, {provider: local, model: "qwen3:8b"}]}
`

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.+?)```")

func TestThePoliciesOfTuningLoad(t *testing.T) {
	t.Parallel()
	blocks := yamlBlock.FindAllStringSubmatch(read(t, "tuning.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("no policy found")
	}
	for _, block := range blocks {
		if _, err := config.Parse("tuning.md", []byte(around+block[1]), func(string) (string, bool) { return "", false }); err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
