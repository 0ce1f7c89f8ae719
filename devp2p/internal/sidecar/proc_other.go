//go:build !linux

package sidecar

import "errors"

// processBehind returns an error: only Linux tells who listens on a Unix socket.
func processBehind(string) (*process, error) { return nil, errors.ErrUnsupported }
