//go:build !linux

package sidecar

import "errors"

// processBehind returns an error: only Linux tells who answers at a socket.
func processBehind(endpoint) (*process, error) { return nil, errors.ErrUnsupported }
