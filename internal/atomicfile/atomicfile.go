// Package atomicfile replaces files as a whole: after a crash, or on a full
// disk, there is the old file or the new one, never a part of either.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Modes of files.
const (
	Secret os.FileMode = 0o600 // for its owner only
	Report os.FileMode = 0o644 // for everybody to read
)

// tmpSuffix marks files that are being written.
const tmpSuffix = ".tmp"

// Write replaces the file at path, or makes it, with data, and waits until the
// disk has it. Its folder must exist. What is no file, such as a device or a
// pipe, is written to as it is; a link stays one. Errors are of kind fault.Local.
func Write(path string, data []byte, mode os.FileMode) error {
	return replace(path, mode, true, func(w io.Writer) error {
		_, err := w.Write(data)
		return fault.Wrap(fault.Local, err)
	})
}

// Fill is Write for what is written piece by piece and could be had again: it
// does not wait for the disk. fill's error is returned as it is, and leaves the
// old file alone.
func Fill(path string, mode os.FileMode, fill func(io.Writer) error) error {
	return replace(path, mode, false, fill)
}

func replace(path string, mode os.FileMode, lasting bool, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return into(path, fill)
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+tmpSuffix) // for its owner only
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	err = fill(f)
	if err == nil && mode != Secret {
		err = fault.Wrap(fault.Local, f.Chmod(mode))
	}
	if err == nil && lasting {
		err = fault.Wrap(fault.Local, f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = fault.Wrap(fault.Local, cerr)
	}
	if err == nil {
		err = fault.Wrap(fault.Local, os.Rename(f.Name(), path))
	}
	if err != nil {
		// What stays is found by Sweep.
		_ = os.Remove(f.Name())
		return err
	}
	if !lasting {
		return nil
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // the rename is to last, too
		_ = dir.Sync() // not every file system can
		dir.Close()
	}
	return nil
}

// into writes to what cannot be replaced.
func into(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	err = fill(f)
	if cerr := f.Close(); err == nil {
		err = fault.Wrap(fault.Local, cerr)
	}
	return err
}

// Sweep removes from a folder what a process left that was killed while it
// wrote. Nobody else may be writing there.
func Sweep(folder string) error {
	all, err := os.ReadDir(folder)
	for _, e := range all {
		if n := e.Name(); strings.HasPrefix(n, ".") && strings.HasSuffix(n, tmpSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(folder, n)))
		}
	}
	return fault.Wrap(fault.Local, err)
}
