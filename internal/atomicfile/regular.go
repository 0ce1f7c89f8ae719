package atomicfile

import (
	"io"
	"os"

	"github.com/chivenet/chive/internal/fault"
)

// ErrNotRegular says that something is no regular file.
var ErrNotRegular = fault.New(fault.Config, "it is no regular file")

// ReadRegular is Read for a regular file, perhaps through a link. It never waits: anything
// else, such as a pipe that nobody writes to, is ErrNotRegular.
func ReadRegular(path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fault.New(fault.Config, "%s: %w", path, ErrNotRegular)
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		return nil, fault.New(fault.Config, "%s has more than the %d bytes that such a file may have", path, most)
	}
	return b, err
}
