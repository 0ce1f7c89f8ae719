// Command release makes what a release offers for download: for each platform and program an
// archive with a static binary, manual pages, completions and the list of modules in it (SBOM),
// for Linux also packages (.deb and .rpm), and SHA256SUMS. Two runs on one commit with one version
// of Go make the same bytes.
//
//	go run ./internal/tools/release -out bin/release
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/tools/semver"
)

// target is a platform of the release.
type target struct {
	os, arch string
	deb, rpm string // the architecture's names in packages; empty: no package
}

func (t target) String() string { return t.os + "-" + t.arch }

var targets = []target{
	{"linux", "amd64", "amd64", "x86_64"},
	{"linux", "arm64", "arm64", "aarch64"},
	{"linux", "arm", "armhf", "armv7hl"},
	{"darwin", "arm64", "", ""},
	{"darwin", "amd64", "", ""},
	{"windows", "amd64", "", ""},
}

// build is one release being made.
type build struct {
	version string    // v0.9.0
	date    time.Time // of everything in the archives: the commit's
	root    string    // the repository
	out     string    // where the files for download go
	tmp     string    // where they are put together
}

func main() {
	version := flag.String("version", "", "the release, such as v0.9.0; without it, the newest that CHANGELOG.md has")
	out := flag.String("out", "bin/release", "`DIR` for the results; must not exist")
	only := flag.String("targets", "", "only these, such as linux-amd64,darwin-arm64")
	changed := flag.Bool("changed", false, "also release a tree with changes that are not committed, and a version that CHANGELOG.md does not have, for tests")
	flag.Parse()
	if err := run(*version, *out, *only, *changed); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(version, out, only string, changed bool) error {
	root, err := output("", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	b := &build{root: strings.TrimSpace(string(root))}
	news, err := os.ReadFile(filepath.Join(b.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if b.version, err = versionOf(version, string(news), changed); err != nil {
		return err
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s exists: remove it first", out)
	}
	chosen := targets
	if only != "" {
		chosen = nil
		for _, name := range strings.Split(only, ",") {
			i := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
			if i < 0 {
				return fmt.Errorf("no target %q: there are %v", name, targets)
			}
			chosen = append(chosen, targets[i])
		}
	}
	if dirty, err := output(b.root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if len(dirty) > 0 && !changed {
		return fmt.Errorf("commit these first, or nobody can build the same:\n%s", dirty)
	}
	if b.date, err = b.commitTime(); err != nil {
		return err
	}
	if b.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if b.tmp, err = os.MkdirTemp("", "chive-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		if err := b.texts(p); err != nil {
			return err
		}
	}
	fmt.Println(b.version)
	for _, t := range chosen {
		fmt.Println(t)
		for _, p := range programs {
			if err := b.target(t, p); err != nil {
				return fmt.Errorf("%v: %s: %w", t, p.name, err)
			}
		}
	}
	return b.sums()
}

// section is the heading of a release in CHANGELOG.md.
var section = regexp.MustCompile(`(?m)^## \[(\S+)\]`)

// versionOf returns the version to release: the one that was asked for, or the newest that the
// changelog has. Users look there for what is new, so a version without a section is no release;
// tests make one anyway.
func versionOf(asked, changelog string, test bool) (string, error) {
	var has []string
	for _, m := range section.FindAllStringSubmatch(changelog, -1) {
		has = append(has, m[1])
	}
	switch {
	case asked != "":
	case len(has) == 0:
		return "", errors.New("CHANGELOG.md has no release: make changelog VERSION=v0.9.0")
	default:
		asked = has[0]
	}
	if err := semver.Check(asked); err != nil {
		return "", err
	}
	if !test && !slices.Contains(has, asked) {
		return "", fmt.Errorf("CHANGELOG.md has no section %s: make changelog VERSION=%s", asked, asked)
	}
	return asked, nil
}

// commitTime is SOURCE_DATE_EPOCH, or else the time of the commit.
func (b *build) commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := output(b.root, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, err
		}
		text = strings.TrimSpace(string(out))
	}
	s, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(s, 0).UTC(), err
}

// texts makes a program's files that are the same on all platforms, in man and completions
// of its directory.
func (b *build) texts(p program) error {
	if _, err := output(filepath.Join(b.root, p.module), b.env(nil), "go", append(append([]string{"run"}, p.man...), filepath.Join(b.dir(p), "man"))...); err != nil {
		return err
	}
	completions := filepath.Join(b.dir(p), "completions")
	if err := os.MkdirAll(completions, 0o755); err != nil {
		return err
	}
	for shell, file := range map[string]string{"bash": p.name + ".bash", "zsh": "_" + p.name, "fish": p.name + ".fish"} {
		text, err := output(filepath.Join(b.root, p.module), b.env(nil), "go", "run", "./cmd/"+p.name, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dir is where the files of a program are put together.
func (b *build) dir(p program) string { return filepath.Join(b.tmp, p.name) }

// target makes a program's files of one platform.
func (b *build) target(t target, p program) error {
	dir := filepath.Join(b.dir(p), t.String())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	bin := filepath.Join(dir, p.binary(t))
	// The version control's stamp would differ between a clone and an archive of the source.
	ldflags := "-s -w -funcalign=16 -buildid= -X github.com/chivenet/chive/internal/version.release=" + b.version
	if _, err := output(filepath.Join(b.root, p.module), b.env(&t), "go", "build", "-trimpath", "-buildvcs=false", "-tags", p.tags,
		"-ldflags", ldflags, "-o", bin, "./cmd/"+p.name); err != nil {
		return err
	}
	bom, err := sbom(bin, b.version)
	if err != nil {
		return err
	}
	name := p.name + "-" + b.version + "-" + t.String()
	if err := os.WriteFile(filepath.Join(b.out, name+".cdx.json"), bom, 0o644); err != nil {
		return err
	}
	if err := b.archive(t, p, name, bin); err != nil {
		return err
	}
	if t.deb == "" {
		return nil
	}
	return b.packages(t, p, bin)
}

// env is the environment of the commands: nothing in the caller's may change a binary.
func (b *build) env(t *target) []string {
	env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "LC_ALL=C", "TZ=UTC",
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(b.date.Unix(), 10))
	if t != nil {
		// The oldest processors of each kind: ARMv7 is what Debian's armhf asks for.
		env = append(env, "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM=7", "GOARM64=v8.0")
	}
	return env
}

// sums writes SHA256SUMS, in the form of sha256sum -c.
func (b *build) sums() error {
	files, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(b.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// output runs a command and returns what it printed.
func output(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}
