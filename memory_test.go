package chive_test

import (
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/account"
)

// TestDefaultMaxMemory compares the documented number with the one that the
// account uses.
func TestDefaultMaxMemory(t *testing.T) {
	if chive.DefaultMaxMemory != account.DefaultMaxMemory || fte.DefaultMaxMemory != account.DefaultMaxMemory {
		t.Errorf("%d and %d bytes, not %d", chive.DefaultMaxMemory, fte.DefaultMaxMemory, account.DefaultMaxMemory)
	}
}
