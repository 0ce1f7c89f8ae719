package client

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestNoRoute: only what the system says before it sends anything lets a client try a relay's other address.
func TestNoRoute(t *testing.T) {
	for _, e := range noRoutes {
		if !noRoute(fault.New(fault.Network, "open channel: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", e)})) {
			t.Errorf("%v was not told", e)
		}
	}
	if noRoute(errors.New("refused")) || noRoute(nil) {
		t.Error("another error counts")
	}
}
