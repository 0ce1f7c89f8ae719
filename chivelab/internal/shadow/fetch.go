package shadow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// Fetches are the pages that a client asks for through its program, one after another, until the simulation ends.
type Fetches struct {
	Proxy  string // SOCKS
	Target string // IP:PORT
	Name   string // of the client's program
	Pause  time.Duration
	Seed   uint64
	Out    string

	after func(n int) // a test hears of each sample
}

// sizes of pages in bytes, with their parts of fifteen: those that measure the public network.
var sizes = []struct{ bytes, parts int64 }{{50 << 10, 12}, {1 << 20, 2}, {5 << 20, 1}}

// fetchTime is the longest a page may take.
const fetchTime = 5 * time.Minute

// Run asks until ctx ends. Each page is a line of a file of samples, in which its size is part of its name.
func (f *Fetches) Run(ctx context.Context) (err error) {
	w, err := experiment.NewWriter(f.Out, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	luck := rand.New(rand.NewPCG(f.Seed, 2))
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(luck.ExpFloat64() * float64(f.Pause))):
		}
		size := draw(luck)
		s := experiment.Sample{Task: experiment.Task{Kind: experiment.KindFetch, Handshake: fmt.Sprintf("%s-%d", f.Name, size), Repetition: n}, Session: 1}
		if s.Values, err = f.fetch(ctx, size); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.Failed = strings.Join(strings.Fields(err.Error()), " ")
		}
		if err := w.Add(&s); err != nil {
			return err
		}
		if f.after != nil {
			f.after(n)
		}
	}
}

func draw(luck *rand.Rand) int64 {
	var all int64
	for _, s := range sizes {
		all += s.parts
	}
	n := luck.Int64N(all)
	for _, s := range sizes {
		if n -= s.parts; n < 0 {
			return s.bytes
		}
	}
	return sizes[0].bytes
}

// fetch measures the time from the request for a connection to the first byte and to the last.
func (f *Fetches) fetch(ctx context.Context, size int64) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	began := time.Now()
	conn, err := socksclient.Dialer{Proxy: f.Proxy}.DialContext(ctx, "tcp", f.Target)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintf(conn, "GET /bytes/%d HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", size, f.Target); err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	b := bufio.NewReaderSize(conn, 64<<10)
	if _, err := b.Peek(1); err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	first := time.Since(began)
	res, err := http.ReadResponse(b, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Network, err)
	case res.StatusCode != http.StatusOK || n != size:
		return nil, fault.New(fault.Network, "a page of %d bytes came with %d, %s", size, n, res.Status)
	}
	return map[string]float64{experiment.MeasureFirst: millis(first), experiment.MeasureTotal: millis(time.Since(began))}, nil
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
