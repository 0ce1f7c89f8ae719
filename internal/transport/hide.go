package transport

import (
	"errors"
	"io"
	"net"

	"github.com/chivenet/chive/internal/ptspec"
)

// hidden is an error of a transport, whose text may name addresses.
type hidden struct{ err error }

func (h *hidden) Error() string { return ptspec.Scrub(h.err.Error()) }
func (h *hidden) Unwrap() error { return h.err }

// Timeout and Temporary make it a net.Error, as the error below may be one.
func (h *hidden) Timeout() bool {
	n, ok := errors.AsType[net.Error](h.err)
	return ok && n.Timeout()
}

func (h *hidden) Temporary() bool { return h.Timeout() }

// hide keeps addresses of a transport's error out of logs.
func hide(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &hidden{err}
}
