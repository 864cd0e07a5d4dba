package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/breakwater-llm/breakwater/internal/breaker"
)

type dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []annotation `json:"list"`
	} `json:"annotations"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Datasource source          `json:"datasource"`
	Definition string          `json:"definition"`
	Query      json.RawMessage `json:"query"`
}

type annotation struct {
	Expr        string `json:"expr"`
	Datasource  source `json:"datasource"`
	TitleFormat string `json:"titleFormat"`
	TextFormat  string `json:"textFormat"`
}

type source struct{ Type, UID string }

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  source `json:"datasource"`
	GridPos     struct{ X, Y, W, H int }
	Targets     []target `json:"targets"`
	Panels      []panel  `json:"panels"`
	FieldConfig struct {
		Defaults struct {
			Unit     string    `json:"unit"`
			Mappings []mapping `json:"mappings"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Datasource   source `json:"datasource"`
}

type mapping struct {
	Options map[string]struct{ Text, Color string } `json:"options"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, dashboardFile), &d); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	if len(d.Panels) == 0 || d.UID == "" || d.Title == "" || d.SchemaVersion == 0 {
		t.Fatalf("%s is no dashboard", dashboardFile)
	}
	return d
}

// shown is a query of the dashboard and what is written beside its lines.
type shown struct{ where, expr, legend string }

func (d dashboard) queries() []shown {
	var all []shown
	for _, p := range d.Panels {
		for _, tt := range p.Targets {
			all = append(all, shown{p.Title + " " + tt.RefID, tt.Expr, tt.LegendFormat})
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, shown{"annotation", a.Expr, a.TitleFormat + a.TextFormat})
	}
	for _, v := range d.Templating.List {
		if parts := labelValues.FindStringSubmatch(v.Definition); parts != nil {
			all = append(all, shown{"variable " + v.Name, parts[1], "{{" + parts[2] + "}}"})
		}
	}
	return all
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	intervals   = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h")
	reference   = regexp.MustCompile(`\$\{?(\w+)\}?`)
	placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// plain is an expression with the variables of Grafana replaced.
func plain(expr string) string {
	return reference.ReplaceAllString(intervals.Replace(expr), anything)
}

func TestTheDashboardAsksOnlyForWhatAGatewaySays(t *testing.T) {
	t.Parallel()
	v := scraped(t)
	for _, s := range readDashboard(t).queries() {
		q, err := parse(plain(s.expr))
		if err != nil {
			t.Errorf("%s: %v", s.where, err)
			continue
		}
		for _, fault := range q.faults(v) {
			t.Errorf("%s: %s", s.where, fault)
		}
		for _, label := range placeholder.FindAllStringSubmatch(s.legend, -1) {
			if results := q.results(v); !slices.Contains(results, label[1]) {
				t.Errorf("%s: the legend names %s, which is not among %v", s.where, label[1], results)
			}
		}
	}
}

// Prometheus reads the queries as if they were rules with names.
func TestPrometheusUnderstandsTheQueriesOfTheDashboard(t *testing.T) {
	t.Parallel()
	var recorded []map[string]string
	for i, s := range readDashboard(t).queries() {
		recorded = append(recorded, map[string]string{"record": fmt.Sprintf("q%d", i), "expr": plain(s.expr)})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": recorded}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, ok := run(t, "promtool", "check", "rules", file); !ok {
		t.Errorf("promtool check rules:\n%s\n%s", said, text)
	}
}

func TestEveryPanelIsWholeAndFindsItsPlace(t *testing.T) {
	t.Parallel()
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("%s: id %d is none or not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		checkPanel(t, p)
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X < 0 || p.GridPos.Y < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: %+v is outside of the 24 columns", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// picked is the data source that the reader of the dashboard picks.
var picked = source{"prometheus", "${datasource}"}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Type == "row" {
		if len(p.Panels) > 0 {
			t.Errorf("row %s hides panels", p.Title)
		}
		return
	}
	if !slices.Contains([]string{"stat", "timeseries", "state-timeline"}, p.Type) {
		t.Errorf("%s: type %q is not one that every Grafana has", p.Title, p.Type)
	}
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
		t.Errorf("panel %d (%s) lacks a title, a description, a unit or a query", p.ID, p.Title)
	}
	refs := map[string]bool{}
	for _, tt := range p.Targets {
		if tt.RefID == "" || refs[tt.RefID] {
			t.Errorf("%s: refId %q is none or not its own", p.Title, tt.RefID)
		}
		refs[tt.RefID] = true
		if tt.Datasource != picked || p.Datasource != picked {
			t.Errorf("%s asks another data source than the one that is picked", p.Title)
		}
	}
}

func TestVariablesAreDeclaredBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	var declared []string
	for _, v := range d.Templating.List {
		for _, name := range reference.FindAllStringSubmatch(v.Definition, -1) {
			if !slices.Contains(declared, name[1]) {
				t.Errorf("variable %s uses %s, which comes later or never", v.Name, name[1])
			}
		}
		if v.Type == "query" && (v.Datasource != picked || !labelValues.MatchString(v.Definition)) {
			t.Errorf("variable %s is no list of label values from the data source that is picked", v.Name)
		}
		declared = append(declared, v.Name)
	}
	if len(declared) == 0 || d.Templating.List[0].Type != "datasource" {
		t.Fatal("the first variable is not the data source")
	}
	for _, s := range d.queries() {
		for _, name := range reference.FindAllStringSubmatch(intervals.Replace(s.expr), -1) {
			if !slices.Contains(declared, name[1]) {
				t.Errorf("%s uses $%s, which is not declared", s.where, name[1])
			}
		}
	}
}

func TestEveryStateOfACircuitHasItsWordAndColour(t *testing.T) {
	t.Parallel()
	for _, p := range readDashboard(t).Panels {
		if p.Type != "state-timeline" {
			continue
		}
		colours := map[string]bool{}
		for state := breaker.Closed; state <= breaker.Shadow; state++ {
			got := p.FieldConfig.Defaults.Mappings[0].Options[strconv.Itoa(int(state))]
			word := strings.ReplaceAll(got.Text, "-", " ")
			if want := strings.ReplaceAll(state.String(), "_", " "); word != want || got.Color == "" || colours[got.Color] {
				t.Errorf("state %d is shown as %q in %q, want %q in a colour of its own", state, got.Text, got.Color, want)
			}
			colours[got.Color] = true
		}
		return
	}
	t.Error("no panel shows the states of circuits over time")
}
