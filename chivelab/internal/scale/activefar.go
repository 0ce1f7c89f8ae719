package scale

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
)

// farRelay is the end of circuits behind the relay under load. It does no handshake and no relay crypto: the relay under
// load sees neither, and this process must not be what everybody waits for.
type farRelay struct {
	target linkspec.Target
	link   *channel.LinkConfig
	ln     net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	links  []*cellLink
	next   uint32
	want   map[uint32]*path // by the number in the onionskin
}

func newFarRelay() (*farRelay, error) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 1024) // tor-spec: a relay's identity key
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var keys [2]*cert.ExpandedKey
	for i := range keys {
		if keys[i], err = cert.GenerateExpanded(rand.Reader); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	id, err := channel.NewRelayIdentity(rsaKey, keys[0], keys[1], now.Add(30*24*time.Hour)).NewRelayKeys(rand.Reader, now)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	f := &farRelay{
		target: linkspec.Target{RelayID: id.ID, Addrs: []netip.AddrPort{addr}},
		link:   &channel.LinkConfig{Identity: id, Addrs: []netip.Addr{addr.Addr()}},
		ln:     ln,
		want:   map[uint32]*path{},
	}
	f.wg.Go(f.listen)
	return f, nil
}

func (f *farRelay) close() {
	f.ln.Close()
	f.mu.Lock()
	f.closed = true
	links := f.links
	f.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	f.wg.Wait()
}

func (f *farRelay) listen() {
	for {
		raw, err := f.ln.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			l, err := linkOver(raw, f.accept, func(c net.Conn) (*channel.Link, error) { return channel.Accept(context.Background(), c, f.link) })
			if err != nil {
				return // the relay under load reports it to the client
			}
			if !f.keep(l) {
				l.close()
			}
		})
	}
}

// keep has close close a link; false: it did already.
func (f *farRelay) keep(l *cellLink) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links = append(f.links, l)
	return !f.closed
}

// Lengths of ntor's two messages (tor-spec, "the ntor handshake").
const (
	ntorSkin   = 84
	ntorAnswer = 64
)

// expect returns an onionskin by which accept knows p: random bytes, as everything in one seems to be, and a number.
func (f *farRelay) expect(p *path) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.want[f.next] = p
	skin := make([]byte, ntorSkin)
	_, _ = rand.Read(skin) // never fails
	binary.BigEndian.PutUint32(skin, f.next)
	return skin
}

// accept answers a CREATE2. An error ends the link.
func (f *farRelay) accept(l *cellLink, id uint32, cmd cell.Command, body []byte) error {
	p, err := f.find(cmd, body)
	if err != nil {
		return err
	}
	l.join(id, &p.ends[farEnd])
	m := cell.Created2{Data: make([]byte, ntorAnswer)}
	l.sendControl(id, cell.CmdCreated2, cell.FormShort.AppendCreated(nil, &m))
	return nil
}

func (f *farRelay) find(cmd cell.Command, body []byte) (*path, error) {
	if cmd != cell.CmdCreate2 {
		return nil, fault.New(fault.Protocol, "%v and not CREATE2", cmd)
	}
	m, err := cell.FormShort.ParseCreate(body)
	if err != nil {
		return nil, err
	}
	if len(m.Data) != ntorSkin {
		return nil, fault.New(fault.Protocol, "an onionskin of %d bytes", len(m.Data))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := binary.BigEndian.Uint32(m.Data)
	p := f.want[n]
	delete(f.want, n)
	if p == nil {
		return nil, fault.New(fault.Protocol, "an onionskin of nobody")
	}
	return p, nil
}
