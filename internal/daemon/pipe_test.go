//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
)

// TestPipeForNetwork: the network file is read at the check and again at the start, so a pipe
// is refused by what it is.
func TestPipeForNetwork(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := chive.PublicNetwork().MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer w.Close()
		_, _ = w.Write(text) // nobody need read it
	}()
	s := NewProxySettings()
	s.role.common().NetworkFile = fmt.Sprintf("/dev/fd/%d", r.Fd())
	if err := s.Check(); !errors.Is(err, atomicfile.ErrNotRegular) || !strings.Contains(err.Error(), "network: /dev/fd/") {
		t.Error(err)
	}
}
