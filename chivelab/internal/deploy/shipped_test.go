package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShipped: the inventory that is in the program is the one that the documents show, and a file is read like it.
func TestShipped(t *testing.T) {
	inv, err := Open(Shipped)
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Nodes) != len(Roles) || inv.Circuits != defaultCircuits {
		t.Errorf("%+v", inv)
	}
	doc, err := os.ReadFile("../../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```toml\n"+string(shipped)+"```\n") {
		t.Error("docs/deploy.md shows another inventory")
	}
	file := filepath.Join(t.TempDir(), "own.toml")
	if err := os.WriteFile(file, shipped, 0o600); err != nil {
		t.Fatal(err)
	}
	if own, err := Open(file); err != nil || own.Name != inv.Name || own.File != file {
		t.Errorf("%+v, %v", own, err)
	}
	if _, err := Open(file + "x"); err == nil || !strings.Contains(err.Error(), file+"x") {
		t.Error(err)
	}
}
