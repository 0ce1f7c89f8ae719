package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fetch"
)

// TestComplain: what a server answers cannot steer the terminal, and each error keeps its
// line.
func TestComplain(t *testing.T) {
	var b strings.Builder
	Complain(&b, "chive", errors.Join(&fetch.StatusError{Status: "404 \x1b[31mred\x1b]0;title\a\u009b1m"}, errors.New("second")))
	if got, want := b.String(), "chive: the server answered 404  [31mred ]0;title  1m\nsecond\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
