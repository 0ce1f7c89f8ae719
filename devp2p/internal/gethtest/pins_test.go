package gethtest

import (
	"os"
	"regexp"
	"testing"
)

// TestPins: the go-ethereum that the tests run is the one that devp2p imports. Else they judge
// messages of one version by the rules of another.
func TestPins(t *testing.T) {
	pin := func(path string) string {
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
	if imports, runs := pin("../../go.mod"), pin("../../peers/go.mod"); imports != runs {
		t.Errorf("devp2p imports go-ethereum %s, and its tests run %s", imports, runs)
	}
}
