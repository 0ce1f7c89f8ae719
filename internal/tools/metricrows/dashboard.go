package metricrows

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Dashboard is what the tests judge of a dashboard of Grafana.
type Dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []Panel
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

// Panel is a part of a dashboard: a graph, a number, or the title of a row.
type Panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ Type, UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

// ReadDashboard reads a dashboard's JSON.
func ReadDashboard(text []byte) (*Dashboard, error) {
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return d, nil
}

// Concrete is an expression of a dashboard with values in place of its variables: all
// jobs and instances, and rates over five minutes.
func Concrete(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(expr)
}

var metricName = regexp.MustCompile(`\bchive_[a-z0-9_]+`)

// Names are the metrics that a text names, each by its name in the tables: parts of a
// histogram by the histogram's.
func Names(text string, rows []Row) (names []string) {
	histograms := map[string]bool{}
	for _, r := range rows {
		histograms[r.Name] = r.Type == "histogram"
	}
	for _, n := range metricName.FindAllString(text, -1) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if whole := strings.TrimSuffix(n, part); histograms[whole] {
				n = whole
			}
		}
		names = append(names, n)
	}
	return names
}
