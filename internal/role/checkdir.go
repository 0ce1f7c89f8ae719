package role

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/internal/fault"
)

// CheckDir reports whether OpenDir could make a directory, or write to it if it is there.
// It makes an empty directory in the nearest one that exists, and
// removes it.
func CheckDir(path string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	for {
		st, err := os.Stat(at)
		if err == nil && !st.IsDir() {
			return fault.New(fault.Config, "%s is not a directory", at)
		}
		if err == nil {
			break
		}
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		return fault.Wrap(fault.Config, err)
	}
	try, err := os.MkdirTemp(at, ".check-*.tmp")
	if err != nil {
		return fault.New(fault.Config, "this user may not write to %s: %w", at, fault.Why(err))
	}
	return fault.Wrap(fault.Local, os.Remove(try))
}
