package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// Fetched describes a download: its bytes, its circuit and its times.
type Fetched struct {
	Path   []*Node       `json:"path"` // guard, middle, exit
	Stages []Stage       `json:"stages"`
	Hops   []Stage       `json:"hops"` // the circuit's building, hop by hop
	First  time.Duration `json:"first_byte_ns"`
	Bytes  int64         `json:"bytes"`
	SHA256 string        `json:"sha256"` // as the target said that it would be
}

// Fetch gets n bytes from the built-in target over a circuit of its own. It is an
// error if the bytes differ from those that the target has sent.
func (nw *Network) Fetch(ctx context.Context, n int64) (*Fetched, error) {
	events, stop := nw.Client.Events()
	defer stop()
	out := &Fetched{}
	var began time.Time
	mark := func(name string) {
		now := time.Now()
		out.Stages = append(out.Stages, Stage{name, now.Sub(began)})
		began = now
	}
	client := nw.Client.Isolated()
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := client.DialContext(ctx, network, addr)
			mark("circuit and connection")
			return c, err
		}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, nw.target.URL(n), nil)
	if err != nil {
		return nil, local(err)
	}
	start := time.Now()
	began = start
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fault.New(fault.Network, "fetch: %w", err)
	}
	defer res.Body.Close()
	mark("first byte")
	out.First = time.Since(start)
	h := sha256.New()
	if out.Bytes, err = io.Copy(h, res.Body); err != nil {
		return nil, fault.New(fault.Network, "fetch: %w", err)
	}
	mark("last byte")
	sum := target.Sum(n)
	if out.SHA256 = hex.EncodeToString(h.Sum(nil)); out.Bytes != n || out.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, fault.New(fault.Network, "fetch: %d bytes came with the SHA-256 %s, not the %d that the target sent", out.Bytes, out.SHA256, n)
	}
	return out, nw.trace(ctx, out, events)
}

// trace finds the circuit of the last opened stream.
func (nw *Network) trace(ctx context.Context, f *Fetched, events <-chan chive.Event) error {
	var used uint64
	for len(events) > 0 {
		if e, ok := (<-events).(*chive.StreamEvent); ok && e.Circuit != 0 {
			used = e.Circuit
		}
	}
	for _, c := range nw.Client.Status().Open {
		if c.ID != used {
			continue
		}
		for _, fp := range c.Path {
			n := nw.byFingerprint(fp)
			if n == nil {
				return fault.New(fault.Protocol, "fetch: the circuit has a relay that is not of this network")
			}
			f.Path = append(f.Path, n)
		}
	}
	if len(f.Path) == 0 {
		return fault.New(fault.Local, "fetch: the circuit that was used is not among the open ones")
	}
	var before time.Duration
	for i, t := range nw.buildOf(ctx, used) {
		f.Hops = append(f.Hops, Stage{f.Path[i].Name, t - before})
		before = t
	}
	return nil
}

// buildWait is how long the event of a used circuit may take to reach follow.
const buildWait = 10 * time.Second

// buildOf returns how long a circuit's hops took; nil if follow has no record of
// it.
func (nw *Network) buildOf(ctx context.Context, circuit uint64) []time.Duration {
	ctx, cancel := context.WithTimeout(ctx, buildWait)
	defer cancel()
	for {
		nw.mu.Lock()
		took := nw.builds[circuit]
		nw.mu.Unlock()
		if took != nil || !wait(ctx, time.Millisecond) {
			return took
		}
	}
}

// wait waits; false when ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
