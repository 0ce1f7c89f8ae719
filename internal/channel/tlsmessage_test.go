package channel

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"io"
	"log/slog"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/nonblock"
)

// tlsMessage sends a record of TLS's own messages, which neither library does when asked. It takes
// the keys from within the connection.
func tlsMessage(t *testing.T, c tlsConn, body []byte) {
	t.Helper()
	out := reflect.ValueOf(c).Elem().FieldByName("out")
	field := func(name string) unsafe.Pointer { return out.FieldByName(name).Addr().UnsafePointer() }
	aead, ok := (*(*any)(field("cipher"))).(cipher.AEAD)
	if !ok {
		t.Fatal("TLS keeps its keys elsewhere now")
	}
	seq := (*[8]byte)(field("seq"))
	plain := append(bytes.Clone(body), 22) // RFC 8446, section 5.2: the type of handshake messages
	record := []byte{23, 3, 3}
	record = binary.BigEndian.AppendUint16(record, uint16(len(plain)+aead.Overhead()))
	record = aead.Seal(record, seq[:], plain, record)
	binary.BigEndian.PutUint64(seq[:], binary.BigEndian.Uint64(seq[:])+1)
	if _, err := c.NetConn().Write(record); err != nil {
		t.Log("the peer has ended the link:", err)
	}
}

// TestLongTLSMessage: TLS collects a message whole before it looks at it, up to 256 KiB, which no account has. A peer that
// sends such a one loses its link.
func TestLongTLSMessage(t *testing.T) {
	if !nonblock.Available {
		t.Skip("the reader does not see TLS's records here")
	}
	for _, kind := range []byte{4, 11} { // a session ticket, a certificate
		l, r := links(t)
		b := Start(r, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		message := append([]byte{kind, 0, 0xf0, 0}, make([]byte, 12000)...) // the rest of it never comes
		tlsMessage(t, l.Conn, message[:6000])
		tlsMessage(t, l.Conn, message[6000:])
		select {
		case <-b.Done():
			if !fault.Is(b.Err(), fault.Protocol) {
				t.Error(b.Err())
			}
		case <-time.After(time.Minute):
			t.Errorf("a message of kind %d: TLS holds the part of it that came", kind)
			b.Close(io.EOF)
		}
		<-b.Done()
		l.Conn.Close()
	}
}

// TestTLSMessages: honest messages of TLS pass, in whatever pieces they come, and among cells, and however many they
// are in the end.
func TestTLSMessages(t *testing.T) {
	l, r := links(t)
	got := &ordered{sink: newSink(), t: t, want: 40, all: make(chan struct{})}
	a := Start(l, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	c, err := a.Open(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	// RFC 8446, section 4.6.1: a lifetime, an age, a nonce, a ticket, extensions.
	ticket := append([]byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 7, 2, 0}, make([]byte, 512+2)...)
	message := append([]byte{4, 0, byte(len(ticket) >> 8), byte(len(ticket))}, ticket...)
	for n := range uint32(40) {
		for rest := message; len(rest) > 0; {
			k := min(len(rest), 30+int(n)*20)
			tlsMessage(t, r.Conn, rest[:k])
			rest = rest[k:]
		}
		one := cell.AppendFixed(nil, c.ID(), cell.CmdRelay, nil)
		binary.BigEndian.PutUint32(cell.Payload(one)[:], n)
		if _, err := r.Conn.Write(one); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-got.all:
	case <-a.Done():
		t.Error(a.Err())
	case <-time.After(time.Minute):
		t.Errorf("%d cells came within a minute", got.next)
	}
	a.Close(io.EOF)
	<-a.Done()
	r.Conn.Close()
}
