package benchonion

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/socksclient"
)

// Crowd is the memory of a client and a service with open connections, each of which has
// carried a byte each way.
type Crowd struct {
	Connections int          `json:"connections"`
	Pairs       []CrowdOfOne `json:"pairs"` // C tor's, Chive's over C tor's relays
}

// CrowdOfOne is a pair's memory, and how long the connections took to open.
type CrowdOfOne struct {
	// Open is the memory when the last connection has opened, and Rest some time later.
	Open    CrowdMemory `json:"open"`
	Rest    CrowdMemory `json:"rest"`
	Seconds float64     `json:"seconds"`
	// Failed says why not all of the connections were opened; then there is no memory.
	Failed string `json:"failed,omitempty"`
}

// CrowdMemory is a pair's memory, in 10^6 bytes.
type CrowdMemory struct {
	Client  float64 `json:"client_rss_mb"`
	Service float64 `json:"service_rss_mb"`
	// What of it is of no file: the pages of programs and libraries are in the kernel's cache anyway.
	ClientAnon  float64 `json:"client_anon_mb"`
	ServiceAnon float64 `json:"service_anon_mb"`
}

const (
	// crowdShare is how many connections share a circuit.
	crowdShare = 500
	// crowdOpeners is how many connections are opened at the same time.
	crowdOpeners = 16
	// crowdTime bounds how long a crowd takes to open.
	crowdTime = 2 * time.Minute
)

// CrowdOrder tells the process that holds connections what to open. It is its own
// process because the bench cannot have enough files open for both ends.
type CrowdOrder struct {
	SOCKS string `json:"socks"`
	Addr  string `json:"addr"` // of the service, with the port of an echo service
	Name  string `json:"name"` // of the crowd: crowds share no circuits
	Count int    `json:"count"`
}

// HoldCrowd reads an order, opens its connections, prints "ready" on out, and holds
// them until in ends.
func HoldCrowd(ctx context.Context, in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	var o CrowdOrder
	if err := dec.Decode(&o); err != nil {
		return fault.New(fault.Config, "crowd: the order: %w", err)
	}
	conns, err := o.open(ctx)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	_, err = io.Copy(io.Discard, in)
	return fault.Wrap(fault.Local, err)
}

func (o *CrowdOrder) open(ctx context.Context) (conns []net.Conn, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, crowdTime, fault.New(fault.Timeout, "the connections were not open in time"))
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := 0
	for range crowdOpeners {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				over := i >= o.Count || err != nil
				mu.Unlock()
				if over {
					return
				}
				d := socksclient.Dialer{Proxy: o.SOCKS, User: fmt.Sprint(o.Name, i/crowdShare), Pass: "x"}
				c, derr := d.DialContext(ctx, "tcp", o.Addr)
				if derr == nil {
					derr = exchange(ctx, c)
				}
				mu.Lock()
				if c != nil {
					conns = append(conns, c)
				}
				if derr != nil && err == nil {
					err = fault.New(fault.KindOf(derr), "connection %d of %d: %w", i+1, o.Count, derr)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, c := range conns {
		_ = c.SetDeadline(time.Time{}) // never fails on an open connection
	}
	return conns, err
}

// crowds measures memory, of one pair after the other: the target could not have the
// connections of both open.
func (s *site) crowds(ctx context.Context) ([]Crowd, error) {
	var out []Crowd
	for _, n := range s.Crowds {
		if n > 0 {
			out = append(out, Crowd{Connections: n})
		}
	}
	for _, p := range s.pairs[:2] {
		if err := s.crowdsOf(ctx, p, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// crowdsOf measures a pair. The connections of a smaller crowd stay open in the larger one.
func (s *site) crowdsOf(ctx context.Context, p *pair, out []Crowd) error {
	_, port, err := net.SplitHostPort(p.echo)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	var holders []*holder
	defer func() {
		for _, h := range holders {
			h.end()
		}
	}()
	before := 0
	for i := range out {
		n := out[i].Connections
		s.Progress(fmt.Sprintf("%s: %d open connections", p.name, n))
		began := time.Now()
		h, err := s.hold(ctx, CrowdOrder{SOCKS: p.socks, Addr: net.JoinHostPort(p.host, port), Name: "crowd" + strconv.Itoa(n), Count: n - before})
		if err != nil && ctx.Err() == nil {
			s.Progress(fmt.Sprintf("%s: %v", p.name, err))
			out[i].Pairs = append(out[i].Pairs, CrowdOfOne{Failed: err.Error()})
			continue
		}
		if err != nil {
			return err
		}
		holders = append(holders, h)
		before = n
		one := CrowdOfOne{Seconds: time.Since(began).Seconds()}
		if one.Open, err = p.memory(); err != nil {
			return err
		}
		s.Progress(fmt.Sprintf("%s: %d open connections, %v later", p.name, n, s.Rest))
		select {
		case <-time.After(s.Rest):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if one.Rest, err = p.memory(); err != nil {
			return err
		}
		out[i].Pairs = append(out[i].Pairs, one)
	}
	return nil
}

// memory measures the processes of a pair.
func (p *pair) memory() (m CrowdMemory, err error) {
	for _, one := range []struct {
		pid       int
		rss, anon *float64
	}{{p.client, &m.Client, &m.ClientAnon}, {p.service, &m.Service, &m.ServiceAnon}} {
		u, err := proc.Of(one.pid)
		if err != nil {
			return m, err
		}
		*one.rss, *one.anon = float64(u.RSS)/1e6, float64(u.Anon)/1e6
	}
	return m, nil
}

// holder is a process that holds connections.
type holder struct {
	process *child.Process
	in      io.WriteCloser
}

func (s *site) hold(ctx context.Context, o CrowdOrder) (*holder, error) {
	cmd := exec.Command(s.Crowd[0], s.Crowd[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	written := make(chan error, 1)
	go func() { written <- json.NewEncoder(in).Encode(o) }()
	p, _, err := child.Run(ctx, nil, cmd, func(line string) bool { return line == "ready" })
	if err != nil {
		in.Close()
		return nil, err
	}
	if err := <-written; err != nil {
		p.Kill()
		return nil, fault.Wrap(fault.Local, err)
	}
	return &holder{p, in}, nil
}

// end closes the connections.
func (h *holder) end() {
	h.in.Close()
	<-h.process.Done()
}
