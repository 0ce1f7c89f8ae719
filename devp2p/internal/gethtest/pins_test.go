package gethtest

import (
	"debug/buildinfo"
	"os"
	"regexp"
	"testing"
)

// pin returns the version of go-ethereum that a go.mod names.
func pin(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*github\.com/ethereum/go-ethereum (v\S+)`).FindSubmatch(raw)
	if found == nil {
		t.Fatalf("%s names no version", path)
	}
	return string(found[1])
}

// TestPins: the go-ethereum that the tests run is the one that devp2p imports. Else they judge
// messages of one version by the rules of another.
func TestPins(t *testing.T) {
	if imports, runs := pin(t, "../../go.mod"), pin(t, "../../peers/go.mod"); imports != runs {
		t.Errorf("devp2p imports go-ethereum %s, and its tests run %s", imports, runs)
	}
}

// TestBuilt: the programs that the tests find are of that version, and were not built before it changed.
func TestBuilt(t *testing.T) {
	want := pin(t, "../../go.mod")
	for _, name := range []string{"geth", "devp2p"} {
		info, err := buildinfo.ReadFile(Program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Main.Path != "github.com/ethereum/go-ethereum" || info.Main.Version != want {
			t.Errorf("%s is of %s %s, and not of version %s: make peers builds that", name, info.Main.Path, info.Main.Version, want)
		}
	}
}
