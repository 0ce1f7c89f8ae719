//go:build unix

package relay

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/atomicfile"
)

// TestPipes: a pipe can be read only once, and would be an empty family at the second time.
func TestPipes(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprintln(w, strings.Repeat("A1", 20))
	w.Close()
	cfg := Config{FamilyFile: fmt.Sprintf("/dev/fd/%d", r.Fd())}
	if err := cfg.Check(); !errors.Is(err, atomicfile.ErrNotRegular) || !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
