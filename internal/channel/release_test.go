package channel

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
)

// noDeadline is a connection that is closed.
type noDeadline struct{ net.Conn }

func (noDeadline) SetWriteDeadline(time.Time) error { return net.ErrClosed }

// TestSlabOfAFailedWrite: a whole slab that could not be written counts no more when the
// queue is given up, also on the account of a circuit that lives on.
func TestSlabOfAFailedWrite(t *testing.T) {
	m := account.New(0)
	ch := &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now}, conn: noDeadline{}}
	c := &CircuitEnd{ch: ch, heapAt: -1}
	c.q.account = m.Address(netip.Addr{}).Open(account.Circuit, nil)
	c.q.push(make([]byte, recordCells*cell.Len), false)
	ch.sched.add(c)
	if _, err := ch.writeRecord(true); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	c.q.clear()
	if n := m.Used(); n != 0 {
		t.Errorf("%d bytes are left on the account", n)
	}
}

// TestUrgentIsCounted: the account has the memory of urgent cells as long as it is held, and
// a peer that has read most of them does not keep it.
func TestUrgentIsCounted(t *testing.T) {
	m := account.New(0)
	ch := &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now}, turn: turnLoop}
	ch.account = m.Address(netip.Addr{}).Open(account.Link, nil)
	check := func() {
		t.Helper()
		if n := int(m.Used()); n != cap(ch.urgent) && len(ch.urgent) > 0 {
			t.Fatalf("%d bytes are held, %d are on the account", cap(ch.urgent), n)
		}
	}
	for range maxUrgent / cell.Len {
		ch.sendUrgent(make([]byte, cell.Len))
		check()
	}
	record := make([]byte, recordCells*cell.Len)
	for len(ch.urgent) > 10*cell.Len {
		ch.fillLocked(record, time.Unix(1, 0), nil)
		check()
		if n := cap(ch.urgent); n > 64*cell.Len && n > 8*len(ch.urgent) {
			t.Fatalf("%d bytes are held for %d", n, len(ch.urgent))
		}
	}
	ch.fillLocked(record, time.Unix(1, 0), nil)
	check()
	if len(ch.urgent) != 0 || m.Used() != 0 {
		t.Error(len(ch.urgent), "bytes are left,", m.Used(), "on the account")
	}
}
