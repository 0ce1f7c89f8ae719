package authority

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

// maxUpload bounds uploads to this authority and fetched documents: a vote of the
// public network has about 8 MB.
const maxUpload = 32 << 20

// peerTimeout bounds one exchange with another authority.
const peerTimeout = 2 * time.Minute

// peer is another authority, reached at its DirPort.
type peer struct {
	a *Authority
	netdir.Authority
}

// post sends a document.
func (p peer) post(ctx context.Context, path string, body []byte) error {
	head := fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %d\r\nHost: %s\r\n\r\n", path, len(body), p.DirPort)
	_, err := p.exchange(ctx, append([]byte(head), body...), 64<<10)
	return err
}

// get fetches a document without compression: there are few authorities.
func (p peer) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	return p.exchange(ctx, fmt.Appendf(nil, "GET %s HTTP/1.0\r\nAccept-Encoding: identity\r\nHost: %s\r\n\r\n", path, p.DirPort), limit)
}

// exchange sends a request and returns the answer's body; a status other than 200
// is an error.
func (p peer) exchange(ctx context.Context, request []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	c, err := p.a.dialTCP(ctx, p.DirPort, peerTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, panics.Contain(p.a.log, nil, func() { c.Close() }))()
	// The server may answer, and close the connection, before it has read all of
	// a large request. The answer says more than the error of the write.
	sent := make(chan error, 1)
	go func() {
		defer panics.Recover(p.a.log, func(err error) { sent <- err })
		_, err := c.Write(request)
		sent <- err
	}()
	defer func() { c.Close(); <-sent }()
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, limit+1<<16)), nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fault.New(fault.Timeout, "no answer: %w", context.Cause(ctx))
		}
		return nil, fault.New(fault.Network, "no answer: %w", hideAddr(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case res.StatusCode != http.StatusOK:
		return nil, fault.New(fault.Directory, "it answers %.100q", res.Status)
	case err != nil:
		return nil, fault.New(fault.Network, "answer: %w", hideAddr(err))
	case int64(len(body)) > limit:
		return nil, fault.New(fault.Resource, "answer of more than %d bytes", limit)
	}
	return bytes.Clone(body), nil
}

// hideAddr drops the address that the net package puts into its errors. It removes the
// operation, too, which the caller names.
func hideAddr(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fault.Why(op.Err)
	}
	return err
}
