//go:build !linux

package deploy

import (
	"context"

	"github.com/chivenet/chive/internal/fault"
)

// InNamespaces needs Linux.
func InNamespaces(context.Context, *Inventory, []string, string, func(string)) (*Report, error) {
	return nil, fault.New(fault.Config, "namespaces need Linux")
}
