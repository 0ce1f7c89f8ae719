// Package atomicfile replaces files as a whole: after a crash or on a full disk, the
// file has its old content or its new one, never a part. It reads files
// as a whole, too, up to a bound.
package atomicfile

import (
	"encoding/json"
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
	Report os.FileMode = 0o644 // readable by all users
)

// tmpSuffix marks files that are being written.
const tmpSuffix = ".tmp"

// Write replaces or creates the file at path with data, and waits until the data is
// on the disk, except below a folder of Passing. The folder must exist. If path is a device or a pipe, Write writes to
// it directly. A symbolic link stays, and its target is replaced. Errors are of kind
// fault.Local.
func Write(path string, data []byte, mode os.FileMode) error {
	return replace(path, mode, !isPassing(path), func(w io.Writer) error {
		_, err := w.Write(data)
		return fault.Wrap(fault.Local, err)
	})
}

// WriteJSON is Write for a value, as JSON that people can read.
func WriteJSON(path string, v any, mode os.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fault.New(fault.Local, "%s: %w", path, err)
	}
	return Write(path, append(data, '\n'), mode)
}

// Fill is Write for data that is written piece by piece and could be fetched again,
// so it does not wait for the disk. If fill returns an error, Fill returns the same
// error and keeps the old file.
func Fill(path string, mode os.FileMode, fill func(io.Writer) error) error {
	return replace(path, mode, false, fill)
}

// syncFile is replaced in tests.
var syncFile = (*os.File).Sync

func replace(path string, mode os.FileMode, lasting bool, fill func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return into(path, fill)
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+tmpSuffix) // readable by its owner only
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	err = fill(f)
	if err == nil && mode != Secret {
		err = fault.Wrap(fault.Local, f.Chmod(mode))
	}
	if err == nil && lasting {
		err = fault.Wrap(fault.Local, syncFile(f))
	}
	if cerr := f.Close(); err == nil {
		err = fault.Wrap(fault.Local, cerr)
	}
	if err == nil {
		err = fault.Wrap(fault.Local, os.Rename(f.Name(), path))
	}
	if err != nil {
		// If this fails, Sweep removes the file later.
		_ = os.Remove(f.Name())
		return err
	}
	if !lasting {
		return nil
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // make the rename durable, too
		_ = dir.Sync() // not every file system supports it
		dir.Close()
	}
	return nil
}

// into writes to a device or a pipe, which cannot be replaced.
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

// Sweep removes the unfinished files in a folder that a killed process left. No
// other process may be writing there.
func Sweep(folder string) error {
	all, err := os.ReadDir(folder)
	for _, e := range all {
		if n := e.Name(); strings.HasPrefix(n, ".") && strings.HasSuffix(n, tmpSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(folder, n)))
		}
	}
	return fault.Wrap(fault.Local, err)
}
