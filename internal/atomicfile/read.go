package atomicfile

import (
	"io"
	"os"

	"github.com/chivenet/chive/internal/fault"
)

// Read reads a whole file, of no more than most bytes: it reads no further, since a
// device may have no end. An error names the file.
func Read(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch st, err := f.Stat(); {
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, fault.New(fault.Config, "%s is a directory", path)
	case st.Size() > int64(most):
		return nil, fault.New(fault.Config, "%s has %d bytes, more than the %d that such a file may have", path, st.Size(), most)
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		return nil, fault.New(fault.Config, "%s has more than the %d bytes that such a file may have", path, most)
	}
	return b, err
}
