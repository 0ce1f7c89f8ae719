package chive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestCountryFiles: a table of countries is the same until one of its files is another.
func TestCountryFiles(t *testing.T) {
	four, six := filepath.Join(t.TempDir(), "4"), filepath.Join(t.TempDir(), "6")
	c := Config{GeoIPFile: four, GeoIPv6File: six}
	if of := c.countryFiles(); of != "" {
		t.Error("there are no files, and it knows", of)
	}
	var seen []string
	for _, f := range []struct{ name, text string }{{four, "1,2,DE\n"}, {six, ""}, {four, "1,2,DE\n3,4,FR\n"}} {
		if err := os.WriteFile(f.name, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		of := c.countryFiles()
		if slices.Contains(seen, of) || of != c.countryFiles() {
			t.Errorf("%q after %q", of, seen)
		}
		seen = append(seen, of)
	}
	if err := os.Chtimes(four, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if of := c.countryFiles(); slices.Contains(seen, of) {
		t.Error("another time is the same file")
	}
}
