package flood

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
)

// authUser asks an authority's DirPort for documents, as relays do.
type authUser struct {
	dir netip.AddrPort
	a   *attack
	or  *Peer
	buf []byte
}

func newAuthUser(victim *Peer) *authUser {
	return &authUser{dir: victim.Dir, or: victim, a: &attack{log: slog.New(slog.DiscardHandler)}, buf: make([]byte, 64<<10)}
}

// ping asks for something small: the authority's certificate.
func (u *authUser) ping(ctx context.Context) error {
	return u.get(ctx, "/tor/keys/all", make([]byte, 4<<10), new(meter))
}

// fetch asks for the descriptors of all relays.
func (u *authUser) fetch(ctx context.Context, m *meter) error {
	return u.get(ctx, "/tor/server/all", u.buf, m)
}

// connect opens a link with a circuit to the ORPort.
func (u *authUser) connect(ctx context.Context) error {
	var k kept
	defer k.close()
	return k.open(ctx, u.a, connectAddr, []*Peer{u.or})
}

func (u *authUser) close() {}

// get fetches a document and drops it.
func (u *authUser) get(ctx context.Context, path string, buf []byte, m *meter) error {
	c, err := dialFrom(ctx, honestAddr, u.dir)
	if err != nil {
		return err
	}
	defer c.Close()
	defer closeOn(ctx, c)()
	n, err := get(c, path, buf, m)
	if err == nil && n == 0 {
		err = errShort
	}
	return err
}

// get asks for a document on a connection, and reads the answer to its end.
func get(c net.Conn, path string, buf []byte, m *meter) (n int, err error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
		return 0, fault.Wrap(fault.Network, err)
	}
	for {
		got, err := c.Read(buf)
		m.add(got)
		if n += got; err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, fault.Wrap(fault.Network, err)
		}
	}
}
