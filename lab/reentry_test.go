package lab_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chivenet/chive/lab"
)

// reentry: exits open no connections into their own network.
func reentry(t *testing.T, nw *lab.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, n := range nw.Nodes() {
		for { // until the exit has the consensus
			c, err := nw.Client.DialContext(ctx, "tcp", n.ORPort)
			if err != nil {
				if !strings.Contains(err.Error(), "CONNECTREFUSED") {
					t.Errorf("to the ORPort of %s: %v", n.Name, err)
				}
				break
			}
			c.Close()
			if n.Role == lab.Authority {
				t.Errorf("to the ORPort of %s: let out", n.Name)
				break
			}
		}
	}
}
