//go:build !linux

package wan

import (
	"context"

	"github.com/chivenet/chive/internal/fault"
)

func (r *Run) all(context.Context, *results) error {
	return fault.New(fault.Local, "the hosts of this comparison are Linux namespaces: it runs on Linux only")
}

func congestion() string { return "unknown" }
