package dirclient

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// OwnDescriptor asks the relay at the other end of a BEGIN_DIR stream for its
// own descriptor, and verifies it (dir-spec, "/tor/server/authority"). Clients
// learn a bridge's keys in this way. The caller must check that the descriptor
// belongs to the expected relay. OwnDescriptor closes the stream.
func OwnDescriptor(ctx context.Context, s io.ReadWriteCloser, to netip.AddrPort) (*netdoc.RouterDesc, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { s.Close() }))
	r := &request{path: "/tor/server/authority.z", to: to, limit: ownLimit}
	res, err := r.roundTrip(s, func() {})
	if !stop() && err != nil { // ctx ended and the stream was closed
		err = fault.New(fault.Timeout, "directory request for the bridge's descriptor: %w", context.Cause(ctx))
	}
	s.Close() // the result is already known
	if err != nil {
		return nil, err
	}
	if res.status != http.StatusOK {
		return nil, statusError(res)
	}
	return netdoc.ParseRouterDesc(res.body, time.Now())
}

// ownLimit is the size of the largest accepted descriptor, in bytes.
const ownLimit = 64 << 10
