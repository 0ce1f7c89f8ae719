package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// nfpm makes the packages, from the files packaging/nfpm*.yaml. It is the newest version whose
// modules can all be had.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// packages writes the Debian package and the RPM of a program for a platform. The program's
// nfpm file says what is in them; this puts the files that are made where it expects them.
func (b *build) packages(t target, p program, bin string) error {
	stage := filepath.Join(b.dir(p), t.String(), "deb")
	if err := os.MkdirAll(filepath.Join(stage, "units"), 0o755); err != nil {
		return err
	}
	units, err := filepath.Glob(filepath.Join(b.root, p.units, "*.service"))
	if err != nil {
		return err
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			return err
		}
		// A package's binary is not in /usr/local.
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/", "/usr/bin/"))
		if err := os.WriteFile(filepath.Join(stage, "units", filepath.Base(unit)), text, 0o644); err != nil {
			return err
		}
	}
	if err := pages(filepath.Join(b.dir(p), "man"), filepath.Join(stage, "man")); err != nil {
		return err
	}
	if err := zipped(filepath.Join(b.root, "CHANGELOG.md"), filepath.Join(stage, "NEWS.gz")); err != nil {
		return err
	}
	if err := b.changelog(p.name, p.name, filepath.Join(stage, "changelog")); err != nil {
		return err
	}
	for _, other := range p.beside {
		if err := b.changelog(other.name, p.name, filepath.Join(stage, "changelog-"+strings.TrimPrefix(other.name, p.name+"-"))); err != nil {
			return err
		}
	}
	config, err := os.ReadFile(filepath.Join(b.root, p.nfpm))
	if err != nil {
		return err
	}
	debian := filepath.Join(stage, "nfpm-deb.yaml")
	if err := os.WriteFile(debian, licence.ReplaceAll(config, nil), 0o644); err != nil {
		return err
	}
	if err := readable(stage); err != nil {
		return err
	}
	made := []struct{ packager, arch, file string }{{"deb", t.deb, debian}, {"rpm", t.rpm, filepath.Join(b.root, p.nfpm)}}
	for _, other := range p.beside {
		made = append(made, struct{ packager, arch, file string }{"deb", t.deb, filepath.Join(b.root, other.nfpm)})
	}
	for _, m := range made {
		env := append(b.env(nil), "MAINTAINER="+maintainer, "VERSION="+strings.TrimPrefix(b.version, "v"), "ARCH="+m.arch, "ROOT="+b.root, "BIN="+bin,
			"STAGE="+stage, "COMPLETIONS="+filepath.Join(b.dir(p), "completions"))
		if _, err := output(b.root, env, "go", "run", nfpm, "package", "--packager", m.packager,
			"--config", m.file, "--target", b.out); err != nil {
			return err
		}
	}
	return nil
}

// maintainer is whom the packages name.
const maintainer = "The Chive authors <chive@chivenet.invalid>"

// licence is the field of a package for which only RPM has a place.
var licence = regexp.MustCompile(`(?m)^license:.*\n`)

// changelog writes the changelog of a package, in Debian's form, and compresses it. What is new in the
// program is in the NEWS of its own package.
func (b *build) changelog(name, program, plain string) error {
	text := fmt.Sprintf("%s (%s) unstable; urgency=medium\n\n  * Release %s. /usr/share/doc/%s/NEWS.gz says what is new.\n\n -- %s  %s\n",
		name, strings.TrimPrefix(b.version, "v"), b.version, program, maintainer, b.date.Format(time.RFC1123Z))
	if err := os.WriteFile(plain, []byte(text), 0o644); err != nil {
		return err
	}
	return zipped(plain, plain+".gz")
}

// readable gives what stands below dir the modes that a package's files have,
// whatever the umask of the user who makes it.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// pages compresses the manual pages, which Debian asks for.
func pages(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(from, "*.1"))
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return errors.New("no manual pages were made")
	}
	for _, page := range pages {
		if err := zipped(page, filepath.Join(to, filepath.Base(page)+".gz")); err != nil {
			return err
		}
	}
	return nil
}

// zipped writes a compressed copy of a file, without name and time.
func zipped(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err == nil {
		_, err = io.Copy(z, r)
		err = errors.Join(err, z.Close())
	}
	return errors.Join(err, w.Close())
}
