package benchonion

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/target"
)

// Listens is how long services take to start.
type Listens struct {
	What string `json:"what"`
	// Published is the time until clients can find the service, as it says itself: C
	// tor has uploaded its first descriptor, Chive has fetched one back.
	Published *measure.Latency `json:"published"`
	// FirstByte is the time until C tor's client has got a byte. It connects when the
	// service says that it is published.
	FirstByte *measure.Latency `json:"first_byte"`
	Retries   int              `json:"retries"` // connections that failed
}

// torHost is a running C tor to which services are added.
type torHost struct {
	control *ctor.Control
	events  <-chan ctor.Event
	port    string // "PORT,TARGET"
}

func (s *site) torHost(ctx context.Context) (h *torHost, err error) {
	h = &torHost{}
	if h.control, err = s.pairs[0].tor.Control(ctx); err != nil {
		return nil, err
	}
	if h.events, err = h.control.Events(ctx, "HS_DESC"); err != nil {
		h.control.Close()
		return nil, err
	}
	addr := s.target.Addr(target.Echo)
	_, port, _ := strings.Cut(addr, ":")
	h.port = port + "," + addr
	return h, nil
}

// add adds a service and returns its address without ".onion".
func (h *torHost) add(ctx context.Context) (string, error) {
	lines, err := h.control.Command(ctx, "ADD_ONION NEW:ED25519-V3 Flags=DiscardPK Port="+h.port)
	if err != nil {
		return "", err
	}
	id, ok := strings.CutPrefix(lines[0], "ServiceID=")
	if !ok {
		return "", fault.New(fault.Protocol, "control port answered ADD_ONION with %q", lines[0])
	}
	return id, nil
}

// uploaded waits until each of the services has made so many uploads.
func (h *torHost) uploaded(ctx context.Context, uploads int, ids ...string) error {
	left := map[string]int{}
	for _, id := range ids {
		left[id] = uploads
	}
	for len(left) > 0 {
		select {
		case ev, open := <-h.events:
			if !open {
				return fault.New(fault.Network, "the control port's events ended")
			}
			f := strings.Fields(ev.Rest)
			if len(f) < 2 || f[0] != "UPLOADED" {
				continue
			}
			if left[f[1]]--; left[f[1]] <= 0 {
				delete(left, f[1])
			}
		case <-ctx.Done():
			return fault.New(fault.Timeout, "C tor's services are not published: %w", context.Cause(ctx))
		}
	}
	return nil
}

// allUploads is how often C tor uploads for a new service: two descriptors, each to
// four directories for each of two replicas.
const allUploads = 16

// listen starts a service of this process's client that leads to the echo service.
func (s *site) listen(ctx context.Context, n *network) (*chive.OnionListener, error) {
	addr := s.target.Addr(target.Echo)
	_, text, _ := strings.Cut(addr, ":")
	var port int
	if _, err := fmt.Sscan(text, &port); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return n.client.Listen(ctx, chive.OnionConfig{Ports: []int{}, Targets: map[int]string{port: addr}})
}

// cold measures connections to services of which the client has no descriptor.
func (s *site) cold(ctx context.Context) error {
	if s.Cold == 0 {
		return nil
	}
	s.Progress("connections without a descriptor: starting services")
	hosts := make([][]string, len(s.pairs))
	h, err := s.torHost(ctx)
	if err != nil {
		return err
	}
	defer h.control.Close()
	var ids []string
	for range s.Cold + 1 {
		id, err := h.add(ctx)
		if err != nil {
			return err
		}
		ids, hosts[0] = append(ids, id), append(hosts[0], id+".onion")
	}
	for i, n := range []*network{&s.tor.network, &s.chive.network} {
		var all []*chive.OnionListener
		for range s.Cold + 1 {
			l, err := s.listen(ctx, n)
			if err != nil {
				return err
			}
			defer l.Close()
			all, hosts[i+1] = append(all, l), append(hosts[i+1], l.Address())
		}
		for _, l := range all {
			if err := l.WaitPublished(ctx); err != nil {
				return err
			}
		}
	}
	if err := h.uploaded(ctx, allUploads, ids...); err != nil {
		return err
	}
	s.Progress("connections without a descriptor")
	took := make([][]time.Duration, len(s.pairs))
	for k := range s.Cold + 1 {
		for j := range s.pairs {
			i := (k + j) % len(s.pairs)
			began := time.Now()
			if err := s.pairs[i].hello(ctx, hosts[i][k]); err != nil {
				return fault.New(fault.KindOf(err), "%s, without a descriptor: %w", s.pairs[i].name, err)
			}
			if k > 0 { // the first one may wait for circuits
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	for _, t := range took {
		s.out.Cold = append(s.out.Cold, measure.NewLatency(t))
	}
	return nil
}

// starter starts a service, waits until it is published, and returns its address and
// how to end it.
type starter func(ctx context.Context) (host string, end func() error, err error)

// listens measures how long services take to start.
func (s *site) listens(ctx context.Context) error {
	if s.Listens == 0 {
		return nil
	}
	h, err := s.torHost(ctx)
	if err != nil {
		return err
	}
	defer h.control.Close()
	stranger := &pair{name: "C tor's client", echo: s.pairs[0].echo}
	node, err := s.chive.torClient()
	if err != nil {
		return err
	}
	stranger.socks = node.SOCKS
	inProcess := func(n *network) starter {
		return func(ctx context.Context) (string, func() error, error) {
			l, err := s.listen(ctx, n)
			if err != nil {
				return "", nil, err
			}
			return l.Address(), l.Close, l.WaitPublished(ctx)
		}
	}
	for _, l := range []struct {
		what   string
		start  starter
		client *pair
	}{
		{"C tor, ADD_ONION", func(ctx context.Context) (string, func() error, error) {
			id, err := h.add(ctx)
			if err != nil {
				return "", nil, err
			}
			end := func() error { _, err := h.control.Command(ctx, "DEL_ONION "+id); return err }
			return id + ".onion", end, h.uploaded(ctx, 1, id)
		}, s.pairs[0]},
		{"Chive, Listen", inProcess(&s.tor.network), s.pairs[0]},
		{"all Chive, Listen", inProcess(&s.chive.network), stranger},
		{"Chive, chive onion serve", s.serveAgain(), s.pairs[0]},
	} {
		got, err := s.timeListen(ctx, l.what, l.start, l.client)
		if err != nil {
			return fault.New(fault.KindOf(err), "%s: %w", l.what, err)
		}
		s.out.Listens = append(s.out.Listens, *got)
	}
	return nil
}

// serveAgain starts "chive onion serve" with the directory of an earlier run, and a new
// key each time.
func (s *site) serveAgain() starter {
	dir, times := filepath.Join(s.dir, "again "+s.tor.name), 0
	return func(ctx context.Context) (string, func() error, error) {
		times++
		p, said, err := s.serve(ctx, &s.tor.network, dir, []string{"--key-dir", filepath.Join(dir, fmt.Sprint("key", times))})
		if err != nil {
			return "", nil, err
		}
		return said["onion"], p.Drain, nil
	}
}

func (s *site) timeListen(ctx context.Context, what string, start starter, client *pair) (*Listens, error) {
	s.Progress("start of a service: " + what)
	out := &Listens{What: what}
	var published, first []time.Duration
	for i := range s.Listens + 1 {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		began := time.Now()
		host, end, err := start(ctx)
		announced := time.Since(began)
		for tries := 0; err == nil; tries++ {
			if err = client.hello(ctx, host); err == nil {
				if i > 0 { // the first one may wait for circuits
					out.Retries += tries
				}
				break
			}
			if ctx.Err() == nil {
				time.Sleep(awaitPause)
				err = nil
			}
		}
		took := time.Since(began)
		if end != nil {
			if eerr := end(); err == nil {
				err = eerr
			}
		}
		cancel()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			published, first = append(published, announced), append(first, took)
		}
	}
	out.Published, out.FirstByte = measure.NewLatency(published), measure.NewLatency(first)
	return out, nil
}
