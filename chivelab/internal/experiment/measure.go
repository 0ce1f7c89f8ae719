package experiment

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// patience bounds one repetition.
const patience = 2 * time.Minute

// open opens a stream at the end of a circuit. It ends with ctx.
func open(ctx context.Context, circ *circuit.Circuit, to netip.AddrPort) (*stream.Stream, func(), error) {
	s, err := stream.Dial(ctx, circ.Last(), to.Addr().String(), to.Port())
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	return s, func() { stop(); s.Close() }, nil
}

// Echo measures the time to open a stream and one round trip of a byte on it.
func Echo(ctx context.Context, circ *circuit.Circuit, to netip.AddrPort) (begin, trip time.Duration, err error) {
	began := time.Now()
	s, end, err := open(ctx, circ, to)
	if err != nil {
		return 0, 0, err
	}
	defer end()
	opened := time.Now()
	if _, err := s.Write([]byte{1}); err != nil {
		return 0, 0, err
	}
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
		return 0, 0, ended(ctx, err)
	}
	return opened.Sub(began), time.Since(opened), nil
}

// download fetches a page of so many bytes by HTTP, and measures the time from the request to its first byte, and from
// the first byte to the last.
func download(ctx context.Context, circ *circuit.Circuit, to netip.AddrPort, size int64) (first, rest time.Duration, err error) {
	began := time.Now()
	s, end, err := open(ctx, circ, to)
	if err != nil {
		return 0, 0, err
	}
	defer end()
	if _, err := fmt.Fprintf(s, "GET /bytes/%d HTTP/1.1\r\nHost: %v\r\nConnection: close\r\n\r\n", size, to); err != nil {
		return 0, 0, err
	}
	r := bufio.NewReader(s)
	if _, err := r.Peek(1); err != nil {
		return 0, 0, ended(ctx, err)
	}
	first = time.Since(began)
	began = time.Now()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, 0, ended(ctx, err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	switch {
	case err != nil:
		return 0, 0, ended(ctx, err)
	case res.StatusCode != http.StatusOK || n != size:
		return 0, 0, fault.New(fault.Network, "the page of %d bytes came with %d, %s", size, n, res.Status)
	}
	return first, time.Since(began), nil
}

// ended prefers the reason for which a context ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.Ended(ctx, "%w", context.Cause(ctx))
	}
	return err
}

// millis is a time as samples have it.
func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// duration is what millis made of a time.
func duration(ms float64) time.Duration { return time.Duration(ms * 1e6) }
