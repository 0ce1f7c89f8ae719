package role

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/fault"
)

// CheckDir reports whether OpenDir could make a directory, or write to it if it is there;
// what names it in errors. It makes an empty directory in the nearest one that exists, and
// removes it.
func CheckDir(path, what string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return fault.New(fault.Local, "%s: %w", what, err)
	}
	for {
		st, err := os.Stat(at)
		if err == nil && !st.IsDir() {
			return fault.New(fault.Config, "%s: %s is not a directory", what, at)
		}
		if err == nil {
			break
		}
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		return fault.New(fault.Config, "%s: %w", what, err)
	}
	try, err := os.MkdirTemp(at, ".check-*.tmp")
	if err != nil {
		return fault.New(fault.Config, "%s: this user may not write to %s: %w", what, at, err)
	}
	return fault.Wrap(fault.Local, os.Remove(try))
}
