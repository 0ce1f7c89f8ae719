package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// madeUp has a row for all that figures and comparisons are made of.
func madeUp() *Report {
	r := &Report{About: About{Day: "2026-01-02", Tor: "Tor version 9", Processors: 3, Namespace: true}, Sizes: Defaults()}
	add := func(row Row) { r.Parts = append(r.Parts, Part{Step: row.Table, Rows: []Row{row}}) }
	for i, k := range Kinds {
		slow := float64(i + 1)
		for _, c := range []string{caseFirst, caseLater} {
			for _, table := range []string{tableConnection, tableLinks} {
				for _, row := range stageRows(table, string(k), c, []Stages{{1e6, 2e6, 3e6, time.Duration(slow * 1e6)}, {2e6, 2e6, 3e6, 4e6}}) {
					add(row)
				}
			}
		}
		for table, subjects := range founding {
			for l := range subjects {
				if table != tableConnection {
					add(Row{table, string(k), l.condition, l.measure, l.unit, distOf([]float64{slow, 2 * slow, 4 * slow})})
				}
			}
		}
		for _, m := range [][2]string{{"memory", unitMB}, {"processor", unitShare}} {
			add(Row{tablePeers, string(k), "10 peers, traffic", m[0], m[1], distOf([]float64{slow})})
		}
		add(Row{tableCircuits, string(k), "one for all", "connection", unitMS, distOf([]float64{slow})})
		add(Row{tablePolicies, string(k), "", "connection", unitMS, distOf([]float64{slow})})
		add(Row{tableLinks, string(k), "", "round trip", unitMS, distOf([]float64{slow})})
		add(Row{tableLinks, string(k), "", "download", unitRate, distOf([]float64{slow})})
	}
	return r
}

// TestReport: all files have what was measured, and nothing else.
func TestReport(t *testing.T) {
	r := madeUp()
	dir := t.TempDir()
	if err := r.writeTexts(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var back Report
	if err := json.Unmarshal(read("report.json"), &back); err != nil || !reflect.DeepEqual(&back, r) {
		t.Errorf("JSON: %v", err)
	}
	rows := 0
	for _, p := range r.Parts {
		rows += len(p.Rows)
	}
	lines, err := csv.NewReader(bytes.NewReader(read("report.csv"))).ReadAll()
	if err != nil || len(lines) != rows+1 {
		t.Errorf("CSV: %d lines for %d rows, %v", len(lines), rows, err)
	}
	text, page := string(read("report.txt")), string(read("report.md"))
	for _, want := range []string{"3.00  7.00    6.00  12.0  12.0  12.0", "3 processors", "Tor version 9"} { // of the third kind
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, want := range []string{"| 82; 127; 119; 165; 187; 198 | 782; 1,523;", "| round trip, ms | 1.00; 2.33; 2.00; 4.00; 4.00; 4.00 |", "## Policies"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "NOT run in") || strings.Contains(text, "NOT in") {
		t.Error("it claims not to have run in a namespace")
	}
	for _, table := range tables {
		if comparable[table.name] == "" {
			t.Errorf("nothing says what of the table %s can be compared", table.name)
		}
	}
}

// TestFigures: each figure has rows, all of one unit, and is drawn into three files.
func TestFigures(t *testing.T) {
	r := madeUp()
	for _, f := range figures {
		rows := f.rows(r)
		if len(rows) == 0 || axis[f.unit] == "" {
			t.Errorf("%s: %d rows, axis %q", f.file, len(rows), axis[f.unit])
		}
		for _, row := range rows {
			if row.Unit != f.unit || row.Table != f.table {
				t.Errorf("%s has %+v", f.file, row)
			}
		}
	}
	some := &Report{}
	for _, p := range r.Parts {
		if p.Step == tablePing {
			some.Parts = append(some.Parts, p)
		}
	}
	dir := t.TempDir()
	if err := some.Write(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "figures"))
	if err != nil || len(files) != 3 {
		t.Errorf("%d files of one figure, %v", len(files), err)
	}
}

// TestEmpty: what was not measured has no table and no figure.
func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := new(Report).Write(dir); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(filepath.Join(dir, "figures")); err != nil || len(files) != 0 {
		t.Errorf("%d figures, %v", len(files), err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || strings.Contains(string(page), "## ") || !strings.Contains(string(page), "did NOT run in a network namespace") {
		t.Errorf("%v\n%s", err, page)
	}
}

// TestFounding: each line of the report that this one answers is a line of a table here.
func TestFounding(t *testing.T) {
	known := map[string]bool{}
	for _, table := range tables {
		known[table.name] = true
	}
	for table := range founding {
		if !known[table] {
			t.Errorf("table %s is not here", table)
		}
	}
}

// TestFlags: the page says by which flags it was made.
func TestFlags(t *testing.T) {
	whole, quick := Defaults(), Short()
	whole.Peers = []int{10, 50}
	whole.Spread = whole.Peers
	whole.While = 5 * time.Second
	quick.Kinds = []Kind{Clear, Chive}
	for want, s := range map[string]Sizes{"": Defaults(), " --short": Short(), " --peers 10,50 --while 5s": whole, " --short --kinds clearnet,chive": quick} {
		if got := s.flags(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
