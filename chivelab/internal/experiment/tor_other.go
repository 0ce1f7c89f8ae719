//go:build !linux

package experiment

import (
	"context"

	"github.com/chivenet/chive/internal/fault"
)

func emulateTor(context.Context, *File, int, string, Programs) (*Site, error) {
	return nil, fault.New(fault.Config, "the hosts of C tor are Linux namespaces: they run on Linux only")
}
