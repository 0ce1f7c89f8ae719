package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestArchives reads back what was written, and holds it to depend on nothing else.
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "program")
	if err := os.WriteFile(from, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	date := time.Unix(1700000000, 0).UTC()
	files := []file{{"chive/chive", from, 0o755}, {"chive/README.md", from, 0o644}}
	var tarred, zipped bytes.Buffer
	if err := writeTar(&tarred, files, date); err != nil {
		t.Fatal(err)
	}
	if err := writeZip(&zipped, files, date); err != nil {
		t.Fatal(err)
	}

	z, err := gzip.NewReader(bytes.NewReader(tarred.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	a := tar.NewReader(z)
	for _, want := range files {
		h, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a)
		if err != nil || h.Name != want.name || h.FileInfo().Mode() != want.mode || !h.ModTime.Equal(date) || string(text) != "text" {
			t.Errorf("%+v, %q, %v", h, text, err)
		}
	}
	b, err := zip.NewReader(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range files {
		if h := b.File[i]; h.Name != want.name || h.Mode() != want.mode || !h.Modified.Equal(date) {
			t.Errorf("%+v", h.FileHeader)
		}
	}

	// Another owner's file, of another time, gives the same bytes.
	if err := os.Chtimes(from, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(from, 0o640); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := writeTar(&again, files, date); err != nil || !bytes.Equal(again.Bytes(), tarred.Bytes()) {
		t.Errorf("another .tar.gz of the same files: %v", err)
	}
	again.Reset()
	if err := writeZip(&again, files, date); err != nil || !bytes.Equal(again.Bytes(), zipped.Bytes()) {
		t.Errorf("another .zip of the same files: %v", err)
	}
}

// TestRefusals names what is wrong before anything is built.
func TestRefusals(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct{ version, out, only, want string }{
		{"0.9.0", missing, "", "v1.2.3"},
		{"v0.9.0", t.TempDir(), "", "exists"},
		{"v0.9.0", missing, "plan9-mips", "plan9-mips"},
	} {
		if err := run(c.version, c.out, c.only, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a refused release left a directory")
	}
}

// TestVersionOf: a release is one that the changelog has.
func TestVersionOf(t *testing.T) {
	const two = "# Changelog\n\n## [v0.2.0] - 2027-01-01\n\n- As in [v0.1.0].\n\n## [v0.1.0] - 2026-01-01\n"
	for _, c := range []struct {
		asked, changelog string
		test             bool
		want, err        string
	}{
		{"", two, false, "v0.2.0", ""},
		{"v0.1.0", two, false, "v0.1.0", ""},
		{"v0.3.0", two, false, "", "no section v0.3.0"},
		{"v0.3.0", two, true, "v0.3.0", ""},
		{"0.1.0", two, true, "", "v1.2.3"},
		{"", "# Changelog\n", true, "", "no release"},
		{"", "## [Unreleased]\n", true, "", "v1.2.3"},
	} {
		got, err := versionOf(c.asked, c.changelog, c.test)
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	news := read(t, "../../../CHANGELOG.md")
	if got, err := versionOf("", string(news), false); err != nil {
		t.Errorf("the newest release of CHANGELOG.md: %q, %v", got, err)
	}
}

// TestEnvironment: what the caller has set for Go's compiler changes no binary.
func TestEnvironment(t *testing.T) {
	t.Setenv("GOFIPS140", "v1.0.0") // another implementation of the primitives
	t.Setenv("GOAMD64", "v4")
	t.Setenv("CGO_ENABLED", "1")
	cmd := exec.Command("go", "env", "GOFIPS140", "GOAMD64", "CGO_ENABLED")
	cmd.Env = new(build).env(&targets[0])
	out, err := cmd.Output()
	if err != nil || string(out) != "off\nv1\n0\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPackage makes the release for this machine twice, compares the results bit by
// bit, and looks into the Debian package (make package-test).
func TestPackage(t *testing.T) {
	if os.Getenv("CHIVE_PACKAGE") == "" || runtime.GOOS != "linux" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: CHIVE_PACKAGE=1 builds packages, on Linux")
	}
	const version = "v9.8.7"
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	for _, out := range []string{first, second} {
		if err := run(version, out, "linux-"+runtime.GOARCH, true); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(first)
	if err != nil || len(names) != 4*len(programs)+2 {
		t.Fatalf("want of each program an archive, two packages and a list of modules, chive-tor, and SHA256SUMS: %v, %v", names, err)
	}
	for _, n := range names {
		a, b := read(t, filepath.Join(first, n.Name())), read(t, filepath.Join(second, n.Name()))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: two builds differ", n.Name())
		}
	}
	command(t, first, "sha256sum", "--strict", "-c", "SHA256SUMS")
	debs, _ := filepath.Glob(first + "/chive_*.deb")
	boms, _ := filepath.Glob(first + "/chive-v*.cdx.json")
	if len(debs) != 1 || len(boms) != 1 {
		t.Fatal(debs, boms)
	}
	if bom := read(t, boms[0]); !bytes.Contains(bom, []byte(`"pkg:golang/golang.org/x/crypto@v`)) || !bytes.Contains(bom, []byte(`"pkg:golang/stdlib@v1.`)) {
		t.Errorf("the list of modules lacks some:\n%s", bom)
	}

	checkRPM(t, first)
	checkLintian(t, first)
	checkEth(t, first, version)
	checkTor(t, first)

	root := filepath.Join(dir, "root")
	command(t, dir, "dpkg-deb", "-x", debs[0], root)
	chive := filepath.Join(root, "usr/bin/chive")
	if got := command(t, dir, chive, "version"); !strings.HasPrefix(got, "chive "+version+" ") || strings.Contains(got, "commit ") {
		t.Errorf("chive version: %s", got)
	}
	for _, name := range []string{"proxy.toml", "onion.toml", "relay.toml", "authority.toml"} {
		if conf := command(t, dir, "dpkg-deb", "-I", debs[0], "conffiles"); !strings.Contains(conf, "/etc/chive/"+name+"\n") {
			t.Errorf("%s is not marked as a configuration file: %s", name, conf)
		}
	}
	if got := command(t, dir, chive, "config", "check", "--config", filepath.Join(root, "etc/chive/proxy.toml"), "--data-dir", dir); got != "ok\n" {
		t.Errorf("the package's settings of a proxy: %s", got)
	}
	// A relay has no port before its operator names one.
	relay := exec.Command(chive, "config", "check", "relay", "--config", filepath.Join(root, "etc/chive/relay.toml"), "--data-dir", dir)
	if out, err := relay.CombinedOutput(); err == nil || relay.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "orport: a relay needs a port") {
		t.Errorf("the package's settings of a relay: %v: %s", err, out)
	}

	authority := exec.Command(chive, "config", "check", "authority", "--config", filepath.Join(root, "etc/chive/authority.toml"), "--data-dir", dir)
	if out, err := authority.CombinedOutput(); err == nil || authority.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "network") {
		t.Errorf("the package's settings of an authority: %v: %s", err, out)
	}

	onion := exec.Command(chive, "config", "check", "onion", "--config", filepath.Join(root, "etc/chive/onion.toml"), "--data-dir", dir)
	if out, err := onion.CombinedOutput(); err == nil || onion.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "key-dir") {
		t.Errorf("the package's settings of onion services: %v: %s", err, out)
	}

	named := regexp.MustCompile(`(?m)^Documentation=man:([a-z-]+)\(1\)$`)
	units, _ := filepath.Glob(root + "/usr/lib/systemd/system/*.service")
	sources, _ := filepath.Glob("../../../contrib/systemd/*.service")
	if len(units) != 4 || len(units) != len(sources) {
		t.Errorf("units %v of %v", units, sources)
	}
	for _, unit := range units {
		text := string(read(t, unit))
		if strings.Contains(text, "/usr/local") || !strings.Contains(text, "=/usr/bin/chive ") {
			t.Errorf("%s does not start the package's binary", unit)
		}
		// As it will be where the package is installed.
		text = strings.ReplaceAll(text, "/usr/bin/chive", chive)
		here := filepath.Join(t.TempDir(), filepath.Base(unit))
		if err := os.WriteFile(here, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		// Of other units it may complain.
		// And it would look for the manual page where the package is not installed.
		page := named.FindStringSubmatch(text)
		if page == nil {
			t.Errorf("%s names no manual page", unit)
		} else if _, err := os.Stat(filepath.Join(root, "usr/share/man/man1", page[1]+".1.gz")); err != nil {
			t.Errorf("%s: %v", unit, err)
		}
		if out := command(t, dir, "systemd-analyze", "verify", "--man=no", here); strings.Contains(out, filepath.Base(unit)) {
			t.Errorf("%s: %s", unit, out)
		}
	}

	pages, _ := filepath.Glob(root + "/usr/share/man/man1/*.1.gz")
	if len(pages) < 5 {
		t.Errorf("manual pages: %v", pages)
	}
	for _, page := range pages {
		z, err := gzip.NewReader(bytes.NewReader(read(t, page)))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || !bytes.Contains(text, []byte(".TH ")) || !bytes.Contains(text, []byte(".SH ")) {
			t.Errorf("%s is no manual page: %v", page, err)
		}
	}
	for file, want := range map[string]string{
		"usr/share/bash-completion/completions/chive":    "complete ",
		"usr/share/zsh/vendor-completions/_chive":        "#compdef chive",
		"usr/share/fish/vendor_completions.d/chive.fish": "complete -c chive",
		"usr/share/doc/chive/copyright":                  "BSD 3-Clause",
		"usr/share/doc/chive/operators.md":               "chive proxy",
		"usr/share/doc/chive/fte.md":                     "chive fte",
		"usr/share/doc/chive/moving-from-c-tor.md":       "chive config import",
		"usr/share/doc/chive/troubleshooting.md":         "chive",
	} {
		if !bytes.Contains(read(t, filepath.Join(root, file)), []byte(want)) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
}

// checkRPM looks into the RPM with rpm itself.
func checkRPM(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("rpm"); err != nil {
		if os.Getenv("CHIVE_INTEROP") != "" {
			t.Error("rpm is not installed")
		}
		t.Log("SKIPPED: rpm is not installed, and nobody has looked into the RPM")
		return
	}
	rpms, _ := filepath.Glob(dir + "/chive-[0-9]*.rpm")
	if len(rpms) != 1 {
		t.Fatal(rpms)
	}
	conf, all := command(t, dir, "rpm", "-qcp", rpms[0]), command(t, dir, "rpm", "-qlp", rpms[0])
	for _, name := range []string{"proxy.toml", "onion.toml", "relay.toml", "authority.toml"} {
		if !strings.Contains(conf, "/etc/chive/"+name+"\n") {
			t.Errorf("%s is not marked as a configuration file of the RPM: %s", name, conf)
		}
	}
	for _, file := range []string{"/usr/bin/chive", "/usr/lib/systemd/system/chive-onion.service", "/usr/share/man/man1/chive.1.gz"} {
		if !strings.Contains(all, file+"\n") {
			t.Errorf("the RPM has no %s", file)
		}
	}
}

// checkLintian has Debian's judge of packages look at them: it has nothing to say.
func checkLintian(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("lintian"); err != nil {
		if os.Getenv("CHIVE_INTEROP") != "" {
			t.Error("lintian is not installed")
		}
		t.Log("SKIPPED: lintian is not installed, and nobody has judged the Debian packages")
		return
	}
	debs, _ := filepath.Glob(dir + "/*.deb")
	if len(debs) != len(programs)+1 { // chive-tor has no program
		t.Fatal(debs)
	}
	for _, deb := range debs {
		out, err := exec.Command("lintian", "--allow-root", "--fail-on", "error,warning", deb).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("W: ")) || bytes.Contains(out, []byte("E: ")) {
			t.Errorf("lintian: %s: %v\n%s", filepath.Base(deb), err, out)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// command runs a program that must succeed, and returns all that it printed.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	return string(out)
}

// TestReadable gives files the modes of a package's, whoever makes it.
func TestReadable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "units", "a.service")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readable(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{file: 0o644, filepath.Dir(file): 0o755} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestInstall: make install puts everything below DESTDIR, leaves settings that are
// there, and make uninstall removes all but the settings.
func TestInstall(t *testing.T) {
	if os.Getenv("CHIVE_PACKAGE") == "" || runtime.GOOS != "linux" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: CHIVE_PACKAGE=1 installs, on Linux")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "with space")
	settings := filepath.Join(dest, "etc/chive/proxy.toml")
	if err := os.MkdirAll(filepath.Dir(settings), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, root, "make", "install", "DESTDIR="+dest, "PREFIX=/opt/chive")
	if got := command(t, root, filepath.Join(dest, "opt/chive/bin/chive"), "version"); !strings.HasPrefix(got, "chive ") {
		t.Errorf("chive version: %s", got)
	}
	if got := read(t, settings); string(got) != "# mine\n" {
		t.Errorf("settings were replaced: %s", got)
	}
	for file, want := range map[string]string{
		"etc/chive/onion.toml": "[[onion]]", "etc/chive/relay.toml": "orport", "etc/chive/authority.toml": "network",
		"opt/chive/share/man/man1/chive-proxy.1":               ".TH ",
		"opt/chive/share/bash-completion/completions/chive":    "complete ",
		"opt/chive/share/zsh/site-functions/_chive":            "#compdef chive",
		"opt/chive/share/fish/vendor_completions.d/chive.fish": "complete -c chive",
		"opt/chive/lib/systemd/system/chive-proxy.service":     "ExecStart=/opt/chive/bin/chive proxy",
		"opt/chive/lib/systemd/system/chive-onion.service":     "ExecStart=/opt/chive/bin/chive onion serve",
		"opt/chive/lib/systemd/system/chive-authority.service": "ExecStart=/opt/chive/bin/chive authority",
	} {
		if !bytes.Contains(read(t, filepath.Join(dest, file)), []byte(want)) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
	command(t, root, "make", "uninstall", "DESTDIR="+dest, "PREFIX=/opt/chive")
	err = filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, filepath.Join(dest, "etc")) {
			t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestStamp: what make build makes says its commit, and whether files were changed since; make says
// it, too.
func TestStamp(t *testing.T) {
	if os.Getenv("CHIVE_PACKAGE") == "" || runtime.GOOS != "linux" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: CHIVE_PACKAGE=1 builds by make, on Linux")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.TrimSpace(command(t, root, "git", "log", "-1", "--abbrev=12", "--format=%h"))
	changed := command(t, root, "git", "status", "--porcelain") != ""
	said := command(t, root, "make", "build")
	got := command(t, root, filepath.Join(root, "bin/chive"), "version")
	line := regexp.MustCompile(`(?m)^commit ([0-9a-f]+) of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC(, modified)?$`).FindStringSubmatch(got)
	if line == nil || line[1] != hash || (line[2] != "") != changed || !strings.Contains(said, "commit: "+hash+",") {
		t.Errorf("of %s, modified: %v: %s\nmake: %s", hash, changed, got, said)
	}
}
