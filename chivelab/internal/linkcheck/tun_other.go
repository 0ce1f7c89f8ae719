//go:build !linux

package linkcheck

import (
	"context"
	"io"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
)

func attachTUN(*links.Net, Config, links.Access, links.Access) (*attached, error) {
	return nil, errTUN
}

func carryTUN(context.Context, *links.Net, Config, links.Access, links.Access, int64) (time.Duration, error) {
	return 0, errTUN
}

var errTUN = fault.New(fault.Config, "TUN devices in namespaces are Linux's: measure with hosts in this process")

// Probe is the program beside a TUN device.
func Probe([]string, io.Writer) error { return fault.New(fault.Config, "this is for Linux") }
