package fetch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/fault"
)

// What a partial file is called, after the name of the whole: the bytes, and which
// version they belong to.
const (
	partSuffix = ".part"
	infoSuffix = ".part.json"
)

const (
	// maxInfo bounds a file with a version, in bytes.
	maxInfo = 64 << 10
	// maxTaken is how many files may have a name, with a number after it.
	maxTaken = 10_000
	// private is the mode of files and folders: only the user may read them.
	private, privateDir = 0o600, 0o700
)

// folder is where files go. os.Root refuses every name that leads out of it, however the folder
// changes meanwhile; and no file is opened through a link.
type folder struct {
	*os.Root
	used map[string]bool // names that this run has given
	file string          // the name that the user has chosen; empty: names come from URLs
}

func (g *getter) openFolder() error {
	if g.toStdout() {
		return nil
	}
	f := &folder{used: map[string]bool{}}
	dir := g.Dir
	if g.Out != "" {
		path := g.Out
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target // a symbolic link stays, and its target is replaced
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fault.New(fault.Config, "get: %s is a directory", g.Out)
		} else if err == nil && !info.Mode().IsRegular() {
			return g.openPipe(path) // it cannot be replaced
		}
		dir, f.file = filepath.Dir(path), filepath.Base(path)
	} else if dir == "" {
		dir = "."
	} else if err := os.MkdirAll(dir, privateDir); err != nil {
		return fault.New(fault.Local, "get: the directory %s cannot be made: %w", dir, fault.Why(err))
	}
	var err error
	if f.Root, err = os.OpenRoot(dir); err != nil {
		return fault.New(fault.Local, "get: the directory %s cannot be used: %w", dir, fault.Why(err))
	}
	g.folder = f
	return nil
}

// openPipe has everything go to a device or a pipe.
func (g *getter) openPipe(path string) error {
	p, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fault.New(fault.Local, "get: %w", err)
	}
	g.pipe, g.Stdout = p, p
	return nil
}

// target returns the file for a URL, whose name is the first choice; nil: an earlier run
// has completed it.
func (f *folder) target(url, name string, goOn bool) (*target, error) {
	if f.file != "" {
		return f.chosen(url, goOn)
	}
	for i := range maxTaken {
		t := &target{folder: f, name: nth(name, i)}
		if f.used[t.name] {
			continue
		}
		whole, part := f.has(t.name), f.has(t.name+partSuffix)
		if goOn && part && t.load() && t.of.URL == url {
			f.used[t.name] = true
			return t, t.open()
		}
		if goOn && whole && !part {
			f.used[t.name] = true
			return nil, nil
		}
		if whole || part {
			continue
		}
		f.used[t.name] = true
		return t, t.create()
	}
	return nil, fault.New(fault.Local, "%d files are called %s", maxTaken, name)
}

// chosen returns the target for the name that the user has chosen. It replaces a whole
// file, and a partial one unless that is to go on.
func (f *folder) chosen(url string, goOn bool) (*target, error) {
	t := &target{folder: f, name: f.file, replace: true}
	if !f.has(t.name + partSuffix) {
		return t, t.create()
	}
	if !t.load() {
		return nil, fault.New(fault.Config, "%s is there, and is no partial download of this program: remove it, or choose another name", t.name+partSuffix)
	}
	if !goOn {
		if err := t.Remove(t.name + partSuffix); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		t.of = version{}
		return t, t.create()
	}
	if t.of.URL != url {
		return nil, fault.New(fault.Config, "%s belongs to another URL (%.200q): remove it, or choose another name", t.name+partSuffix, t.of.URL)
	}
	return t, t.open()
}

// has reports whether something has the name.
func (f *folder) has(name string) bool {
	_, err := f.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// target is a file that a download fills: the partial one, which gets its name at the end.
type target struct {
	*folder
	name    string
	replace bool // a file with the name may be replaced
	f       *os.File
	size    int64
	of      version
}

// openPlain opens the file with a suffix, which must be a file and no link.
func (t *target) openPlain(suffix string, flag int) (*os.File, error) {
	before, err := t.Lstat(t.name + suffix)
	if err != nil || !before.Mode().IsRegular() {
		return nil, fault.New(fault.Local, "%s cannot be used: it is not a file", t.name+suffix)
	}
	f, err := t.OpenFile(t.name+suffix, flag, private)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		f.Close()
		return nil, fault.New(fault.Local, "%s was replaced meanwhile", t.name+suffix)
	}
	return f, nil
}

// makePlain makes the file with a suffix, where there must be none.
func (t *target) makePlain(suffix string) (*os.File, error) {
	f, err := t.OpenFile(t.name+suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	return f, fault.Wrap(fault.Local, err)
}

// load reads the version of the partial file.
func (t *target) load() bool {
	f, err := t.openPlain(infoSuffix, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxInfo))
	return err == nil && json.Unmarshal(doc, &t.of) == nil && t.of.URL != ""
}

// create makes the partial file.
func (t *target) create() (err error) {
	t.f, err = t.makePlain(partSuffix)
	return err
}

// open opens the partial file of an earlier run, to go on at its end.
func (t *target) open() (err error) {
	if t.f, err = t.openPlain(partSuffix, os.O_WRONLY); err != nil {
		return err
	}
	t.size, err = t.f.Seek(0, io.SeekEnd)
	return fault.Wrap(fault.Local, err)
}

func (t *target) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	t.size += int64(n)
	return n, err
}

func (t *target) held() (int64, version) { return t.size, t.of }

// begin implements sink.
func (t *target) begin(v version) error {
	if err := errors.Join(t.f.Truncate(0), t.seek0()); err != nil {
		return final{fault.Wrap(fault.Local, err)}
	}
	t.size, t.of = 0, v
	if v.URL == "" {
		return nil
	}
	if err := t.save(); err != nil {
		return final{fault.Wrap(fault.Local, err)}
	}
	return nil
}

// save writes the version beside the partial file.
func (t *target) save() error {
	doc, err := json.Marshal(t.of)
	if err == nil {
		err = t.gone(infoSuffix)
	}
	if err != nil {
		return err
	}
	f, err := t.makePlain(infoSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(doc)
	return errors.Join(err, f.Close())
}

func (t *target) seek0() error {
	_, err := t.f.Seek(0, io.SeekStart)
	return err
}

// gone removes the file with the suffix if it is there.
func (t *target) gone(suffix string) error {
	if err := t.Remove(t.name + suffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// finish gives the complete file its name.
func (t *target) finish() error {
	mine, err := t.f.Stat()
	if err = errors.Join(err, t.f.Close()); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	there, err := t.Lstat(t.name + partSuffix)
	switch {
	case err != nil || !os.SameFile(mine, there):
		return fault.New(fault.Local, "%s was replaced meanwhile: does another program download to the same name?", t.name+partSuffix)
	case !t.replace && t.has(t.name):
		return fault.New(fault.Local, "%s was made by another program meanwhile: the download is in %s", t.name, t.name+partSuffix)
	}
	if err := t.Rename(t.name+partSuffix, t.name); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	return fault.Wrap(fault.Local, t.gone(infoSuffix))
}

// keep ends a download that has failed. It keeps what can be continued, and says so.
func (t *target) keep(err error) error {
	err = errors.Join(err, fault.Wrap(fault.Local, t.f.Close()))
	if t.size > 0 && t.of.validator() != "" {
		return fault.New(fault.KindOf(err), "%w; %d bytes are in %s, and --continue goes on from there", err, t.size, t.name+partSuffix)
	}
	return errors.Join(err, fault.Wrap(fault.Local, errors.Join(t.gone(partSuffix), t.gone(infoSuffix))))
}
