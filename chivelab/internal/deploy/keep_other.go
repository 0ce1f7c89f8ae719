//go:build !linux

package deploy

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

const startTime = 30 * time.Second

var errNoBoard = fault.New(fault.Config, "boards have Linux")

// CheckBoard needs Linux.
func CheckBoard([]netip.AddrPort) error { return errNoBoard }

// Start needs Linux.
func Start(context.Context, string, string, []string, []string) error { return errNoBoard }

// Keep needs Linux.
func Keep(context.Context, string, []string) error { return errNoBoard }

// Await needs Linux.
func Await(context.Context, string, bool, io.Reader) error { return errNoBoard }
