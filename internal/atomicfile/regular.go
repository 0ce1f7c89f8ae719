package atomicfile

import (
	"bytes"
	"io"
	"os"

	"github.com/chivenet/chive/internal/fault"
)

// ErrNotRegular says that something is no regular file.
var ErrNotRegular = fault.New(fault.Config, "it is no regular file")

// ReadRegular is Read for a regular file, perhaps through a link. It never waits: anything
// else, such as a pipe that nobody writes to, is ErrNotRegular.
func ReadRegular(path string, most int) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if st, err := f.Stat(); err == nil && st.Size() <= int64(most) {
		b.Grow(int(st.Size()) + bytes.MinRead) // ReadFrom wants that much room at the end
	}
	_, err = b.ReadFrom(io.LimitReader(f, int64(most)+1))
	if err == nil && b.Len() > most {
		return nil, fault.New(fault.Config, "%s has more than the %d bytes that such a file may have", path, most)
	}
	return b.Bytes(), err
}

// OpenRegular is os.Open for a regular file, as ReadRegular reads one.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fault.New(fault.Config, "%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
