package shadowfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLastWords: a directory may have any name.
func TestLastWords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tor.1000.stderr"), []byte("no such file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := LastWords(dir); !strings.HasSuffix(got, "ends with: no such file") {
		t.Errorf("%q", got)
	}
	if got := LastWords(filepath.Join(dir, "nothing")); got != "" {
		t.Errorf("%q", got)
	}
}
