package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exportInto writes an inventory for containers.
func exportInto(t *testing.T, doc string, write func(*Export) (string, error)) (dir, next string) {
	t.Helper()
	inv, err := Parse("x.toml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	next, err = write(&Export{Inventory: inv, Program: fakeProgram(t), Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ComposeName, KubernetesName} { // nothing secret is in what is written
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && (bytes.Contains(b, []byte("v3ident")) || bytes.Contains(b, []byte("ed25519 ="))) {
			t.Error("keys in", name)
		}
	}
	readme, err := os.ReadFile(filepath.Join(dir, ReadmeName))
	if err != nil || !bytes.Contains(readme, []byte("\n    "+next+"\n")) || bytes.Contains(readme, []byte("%!")) {
		t.Errorf("%s, %v", readme, err)
	}
	return dir, next
}

// oddNames is an inventory whose names mean something else in YAML.
func oddNames() string {
	doc := sevenNodes(`name = "on"`)
	for role, name := range map[Role]string{Guard: "null", Middle: "yes", Exit: "n", Monitor: "e1"} {
		doc = strings.Replace(doc, `role = "`+string(role)+`"`, `role = "`+string(role)+"\"\nname = \""+name+`"`, 1)
	}
	return doc
}

// TestOrigin: the name of the inventory's file cannot end the comment that it stands in.
func TestOrigin(t *testing.T) {
	inv, err := Parse("a\nservices: {}\n#.toml", []byte(sevenNodes("")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(inv.origin("compose"), "\n"), "\n") {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("%q is no comment", line)
		}
	}
}

// TestReadReport: a report that is none is an error, and not one of a network that built all circuits.
func TestReadReport(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadReport(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	for doc, good := range map[string]bool{
		"": false, "{}": false, `{"handshakes":[null]}`: false, "[]": false, `{"circuits":2,"handshakes":[{"name":"pq768","built":1}]}`: true,
	} {
		if err := os.WriteFile(filepath.Join(dir, ReportName), []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ReadReport(dir)
		if (err == nil) != good || good && r.Complete() {
			t.Errorf("%s: %+v, %v", doc, r, err)
		}
	}
}
