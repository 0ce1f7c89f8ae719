package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdd makes the first release of a project and then the second.
func TestAdd(t *testing.T) {
	const head = "# Changelog\n\nWords about it.\n"
	first, err := add(head, "v0.9.0", "2026-12-01", map[string]string{
		"b.added.md":   "A second thing,\nof two lines.\n\nAnd a paragraph.\n",
		"a.added.md":   "A first thing.\n",
		"c.fixed.md":   "A mistake.\n",
		"d-without.md": "Another way.\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := head + `
## [v0.9.0] - 2026-12-01

### Added

- A first thing.
- A second thing,
  of two lines.

  And a paragraph.

### Changed

- Another way.

### Fixed

- A mistake.
`
	if first != want {
		t.Fatalf("got:\n%s", first)
	}
	second, err := add(first, "v0.10.0-rc.1", "2027-01-01", map[string]string{"x.security.md": "A hole."})
	if err != nil {
		t.Fatal(err)
	}
	want = strings.Replace(want, head, head+"\n## [v0.10.0-rc.1] - 2027-01-01\n\n### Security\n\n- A hole.\n", 1)
	if second != want {
		t.Fatalf("got:\n%s", second)
	}
}

// TestRefusals names what is wrong.
func TestRefusals(t *testing.T) {
	one := map[string]string{"a.added.md": "A thing."}
	for _, c := range []struct {
		version string
		changes map[string]string
		want    string
	}{
		{"0.9.0", one, "v1.2.3"},
		{"v0.9", one, "v1.2.3"},
		{"v0.8.0", one, "already"},
		{"v0.9.0", nil, "nothing to release"},
		{"v0.9.0", map[string]string{"a.better.md": "A thing."}, "better"},
		{"v0.9.0", map[string]string{"a.added.md": " \n"}, "want text"},
		{"v0.9.0", map[string]string{"a.added.md": "# Heading\n"}, "want text"},
	} {
		_, err := add("# Changelog\n\n## [v0.8.0] - 2026-01-01\n", c.version, "2026-12-01", c.changes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %v: got %v, want %q", c.version, c.changes, err, c.want)
		}
	}
}

// TestRelease goes through a release with the changes that the project has now, in a
// copy of them.
func TestRelease(t *testing.T) {
	const root = "../../.."
	dir := t.TempDir()
	names, err := filepath.Glob(root + "/changes/*.md")
	if err != nil {
		t.Fatal(err)
	}
	copyTo := func(name, from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "changes"), 0o755); err != nil {
		t.Fatal(err)
	}
	copyTo("CHANGELOG.md", root+"/CHANGELOG.md")
	for _, name := range names {
		copyTo("changes/"+filepath.Base(name), name)
	}
	if err := release(dir, "v999.0.0", "2026-12-01"); err != nil {
		if len(names) == 0 { // right after a release
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/changes/*"); len(left) > 0 {
		t.Errorf("left in changes/: %v", left)
	}
	text, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "\n- "); got < len(names) {
		t.Errorf("%d entries for %d files", got, len(names))
	}
}
