package dirclient

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// OwnDescriptor asks the relay at the other end of a BEGIN_DIR stream for its
// own descriptor, which is how clients learn of a bridge's keys (dir-spec,
// "/tor/server/authority"), and verifies it: that it is the wanted relay's is
// for the caller to check. It closes the stream.
func OwnDescriptor(ctx context.Context, s io.ReadWriteCloser) (*netdoc.RouterDesc, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { s.Close() }))
	r := &request{path: "/tor/server/authority.z", limit: ownLimit}
	res, err := r.roundTrip(s, func() {})
	if !stop() && err != nil { // the stream was closed under the request
		err = fault.New(fault.Timeout, "directory request for the bridge's descriptor: %w", context.Cause(ctx))
	}
	s.Close() // the answer is here, or an error is
	if err != nil {
		return nil, err
	}
	if res.status != http.StatusOK {
		return nil, statusError(res)
	}
	return netdoc.ParseRouterDesc(res.body, time.Now())
}

// ownLimit is the largest descriptor that is read, in bytes.
const ownLimit = 64 << 10
