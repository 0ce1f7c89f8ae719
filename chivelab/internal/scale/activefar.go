package scale

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"log/slog"
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
	target   linkspec.Target
	channels *channel.Manager
	link     *channel.LinkConfig
	ln       net.Listener
	wg       sync.WaitGroup

	mu   sync.Mutex // guards what follows
	next uint32
	want map[uint32]*path // by the number in the onionskin
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
	cfg := &channel.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Accept: f.accept}
	f.channels = channel.NewManager(cfg, f.link, func(context.Context, netip.AddrPort) (net.Conn, error) {
		return nil, fault.New(fault.Local, "circuits end at the far relay")
	})
	f.wg.Go(f.listen)
	return f, nil
}

func (f *farRelay) close() {
	f.ln.Close()
	f.channels.Close()
	f.wg.Wait()
}

func (f *farRelay) listen() {
	for {
		raw, err := f.ln.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			l, err := channel.Accept(context.Background(), raw, f.link)
			if err != nil {
				return // the relay under load reports it to the client
			}
			_, _ = f.channels.Adopt(l) // fails only while the far relay is stopping
		})
	}
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

// accept answers a CREATE2.
func (f *farRelay) accept(c *channel.CircuitEnd, cmd cell.Command, body []byte) {
	p, err := f.find(cmd, body)
	if err != nil {
		c.Destroy(cell.DestroyProtocol)
		return
	}
	p.ends[farEnd].circ = c
	c.SetReceiver(&p.ends[farEnd])
	m := cell.Created2{Data: make([]byte, ntorAnswer)}
	if err := c.SendControl(cell.CmdCreated2, cell.FormShort.AppendCreated(nil, &m)); err != nil {
		c.Destroy(cell.DestroyInternal)
	}
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
