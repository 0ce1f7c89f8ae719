package relay

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// stopped is a connection whose owner stops reading.
type stopped struct {
	net.Conn
	stop atomic.Bool
	end  chan struct{}
}

func (s *stopped) Read(p []byte) (int, error) {
	if s.stop.Load() {
		<-s.end
		return 0, io.EOF
	}
	return s.Conn.Read(p)
}

func (s *stopped) Close() error {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
	return s.Conn.Close()
}

// TestSlowReader: a client requests much data over many circuits through the
// relay and stops reading. Its queued cells use too much memory: the relay closes
// its circuits and logs this, and another client continues.
func TestSlowReader(t *testing.T) {
	const limit = 2 << 20
	v := startVictim(t, func(c *Config) { c.MaxMemory = limit })
	// An exit behind the relay sends as much as the windows allow.
	far := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) { _, _ = s.Write(make([]byte, 10<<20)) }})
	var conn *stopped
	mean := v.connect(t, func(c net.Conn) net.Conn {
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		conn = &stopped{Conn: c, end: make(chan struct{})}
		return conn
	})
	good := v.connect(t, nil)
	mine := good.stream(good.circuit(), target.Source)
	var asked []*circuit.Circuit
	for range 16 {
		c := mean.circuit()
		if err := c.Extend(within(t), far.Target, circuit.HopOptions{}); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, c)
	}
	conn.stop.Store(true)
	for _, c := range asked {
		for range 2 { // a stream's window is half a circuit's
			if _, err := stream.Begin(c.Last(), "much", 80, stream.AnyFamily); err != nil {
				t.Fatal(err)
			}
		}
	}
	const size = 20 << 20
	if _, err := mine.Write(binary.BigEndian.AppendUint64(nil, size)); err != nil {
		t.Fatal(err)
	}
	mine.SetDeadline(time.Now().Add(2 * time.Minute))
	for timeout := within(t); evicted(v) == 0; {
		select {
		case <-timeout.Done():
			t.Fatal("no circuit was closed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(mine, size)); n != size {
		t.Fatalf("the other client got %d of %d bytes: %v", n, size, err)
	}
	good.use()
	if log := v.log.String(); !strings.Contains(log, "level=WARN msg=\"peers made the relay hold too much memory") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	if n := evicted(v); n > 17 {
		t.Errorf("%d circuits and links were closed, more than the client had", n)
	}
}

func evicted(v *victim) uint64 {
	holders, _ := v.memory.Evicted()
	return holders
}

// TestMalformedCells: a client that sends any bytes over its link, whole cells or
// parts, and leaves in any way, can lose its own circuits or its link; others
// lose nothing.
func TestMalformedCells(t *testing.T) {
	v := startVictim(t, nil)
	good := v.connect(t, nil)
	held := good.stream(good.circuit(), target.Echo)
	junk := make([]byte, cell.Len)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(junk) // Read of this generator never fails
	fixed := func(id uint32, cmd cell.Command, body ...byte) []byte { return cell.AppendFixed(nil, id, cmd, body) }
	create := func(typ cell.HandshakeType, n int) []byte {
		return (&cell.Create2{Type: typ, Data: junk[:n]}).Append(nil)
	}
	const mine, theirs = 1<<31 | 5, 5
	for name, c := range map[string]struct {
		send  []byte
		close bool // the link must end
	}{
		"VERSIONS again":              {cell.AppendVar(nil, 0, cell.CmdVersions, []byte{0, 4}), false},
		"NETINFO again":               {fixed(0, cell.CmdNetinfo), false},
		"CERTS late":                  {cell.AppendVar(nil, 0, cell.CmdCerts, junk[:100]), false},
		"AUTHENTICATE late":           {cell.AppendVar(nil, 0, cell.CmdAuthenticate, junk[:300]), false},
		"a huge variable cell":        {cell.AppendVar(nil, 0, cell.CmdVPadding, make([]byte, 60000)), true},
		"half a cell":                 {fixed(mine, cell.CmdCreate2)[:300], false},
		"unknown fixed command":       {fixed(mine, 99), false},
		"unknown variable command":    {cell.AppendVar(nil, mine, 250, junk), false},
		"RELAY for no circuit":        {fixed(mine, cell.CmdRelay, junk[:500]...), false},
		"RELAY_EARLY for no circuit":  {fixed(mine, cell.CmdRelayEarly, junk[:500]...), false},
		"DESTROY for no circuit":      {fixed(mine, cell.CmdDestroy), false},
		"CREATED2 for no circuit":     {fixed(mine, cell.CmdCreated2), false},
		"CREATED_FAST for no circuit": {fixed(mine, cell.CmdCreatedFast), false},
		"CREATE2 with our identifier": {fixed(theirs, cell.CmdCreate2, create(2, 84)...), false},
		"CREATE2 on circuit 0":        {fixed(0, cell.CmdCreate2, create(2, 84)...), false},
		"CREATE":                      {fixed(mine, cell.CmdCreate, junk[:186]...), false},
		"CREATE2, garbage ntor":       {fixed(mine, cell.CmdCreate2, create(2, 84)...), false},
		"CREATE2, short ntor":         {fixed(mine, cell.CmdCreate2, create(2, 3)...), false},
		"CREATE2, garbage ntor-v3":    {fixed(mine, cell.CmdCreate2, create(3, 200)...), false},
		"CREATE2, unknown handshake":  {fixed(mine, cell.CmdCreate2, create(77, 84)...), false},
		"CREATE2, lies of its length": {fixed(mine, cell.CmdCreate2, 0, 2, 0xff, 0xff), false},
		"LONG_CREATE2, garbage":       {cell.AppendVar(nil, mine, cell.CmdLongCreate2, junk), false},
		"CREATE_FAST twice":           {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdCreateFast, junk[:20]...)...), false},
		"RELAY before CREATED2":       {append(fixed(mine, cell.CmdCreate2, create(2, 84)...), fixed(mine, cell.CmdRelay, junk[:500]...)...), false},
		"unrecognised RELAY":          {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdRelay, junk[:500]...)...), false},
		"CREATED2 on an open circuit": {append(fixed(mine, cell.CmdCreateFast, junk[:20]...), fixed(mine, cell.CmdCreated2, junk[:80]...)...), false},
		"PADDING_NEGOTIATE, garbage":  {fixed(0, cell.CmdPaddingNegotiate, junk[:20]...), false},
		"no TLS any more":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := net.Dial("tcp", v.Addrs()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			tg := v.Target()
			l, err := channel.Connect(within(t), raw, tg.RelayID, tg.Addrs[0], &channel.LinkConfig{})
			if err != nil {
				t.Fatal(err)
			}
			raw.SetDeadline(time.Now().Add(60 * time.Second))
			if c.send == nil {
				_, err = raw.Write(junk)
			} else {
				_, err = l.Conn.Write(c.send)
			}
			if err != nil && !c.close { // the relay may close the link during the write
				t.Fatal(err)
			}
			if c.close {
				if _, err := io.Copy(io.Discard, l.Conn); err != nil && strings.Contains(err.Error(), "timeout") {
					t.Error("the link stays")
				}
				return
			}
			// The link still works, unless it waits for the other half of a cell:
			// a circuit can be created.
			if name == "half a cell" {
				return
			}
			if _, err := l.Conn.Write(fixed(1<<31|7, cell.CmdCreateFast, junk[:20]...)); err != nil {
				t.Fatal(err)
			}
			for b := make([]byte, cell.Len); ; {
				if _, err := io.ReadFull(l.Conn, b[:cell.HeaderLen]); err != nil {
					t.Fatal("the link ended:", err)
				}
				n := cell.Len - cell.HeaderLen
				if cell.Cmd(b).IsVariable() {
					t.Fatal("a cell of variable length:", cell.Cmd(b))
				}
				if _, err := io.ReadFull(l.Conn, b[cell.HeaderLen:][:n]); err != nil {
					t.Fatal(err)
				}
				if cell.CircID(b) == 1<<31|7 {
					if cell.Cmd(b) != cell.CmdCreatedFast {
						t.Error(cell.Cmd(b))
					}
					break
				}
			}
		})
	}
	// Random cells in random order, until the relay closes each link.
	commands := []cell.Command{cell.CmdPadding, cell.CmdCreate, cell.CmdRelay, cell.CmdDestroy, cell.CmdCreateFast, cell.CmdRelayEarly, cell.CmdCreate2, cell.CmdCreated2, cell.CmdPaddingNegotiate, 40}
	for range 50 {
		raw, err := net.Dial("tcp", v.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		tg := v.Target()
		l, err := channel.Connect(within(t), raw, tg.RelayID, tg.Addrs[0], &channel.LinkConfig{})
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, l.Conn)
		for range 40 {
			_, _ = rng.Read(junk)
			id := 1<<31 | uint32(junk[0]%4)
			if _, err := l.Conn.Write(fixed(id, commands[int(junk[1])%len(commands)], junk[2:400]...)); err != nil {
				break // the relay has heard enough
			}
		}
		raw.Close()
	}
	held.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := held.Write([]byte("x")); err != nil {
		t.Error("another client's stream:", err)
	}
	if _, err := io.ReadFull(held, make([]byte, 1)); err != nil {
		t.Error("another client's stream:", err)
	}
	good.use()
}
