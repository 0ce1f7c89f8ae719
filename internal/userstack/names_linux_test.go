package userstack

import (
	"bytes"
	"net"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/chivenet/chive/internal/panics"
)

// questions are n of them for a connection to the name server.
func questions(t *testing.T, n int) []byte {
	t.Helper()
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("host.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.AppendPack(make([]byte, 2))
	if err != nil {
		t.Fatal(err)
	}
	b[1] = byte(len(b) - 2)
	return bytes.Repeat(b, n)
}

// TestNamesBound: a connection to the name server has a place among all, and keeps it while the program does not
// read the answers.
func TestNamesBound(t *testing.T) {
	r := newRig(t, 1)
	little := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 16 << 10, Max: 16 << 10}
	if err := r.program.SetTransportProtocolOption(tcp.ProtocolNumber, &little); err != nil {
		t.Fatal(err)
	}
	asks, err := r.connect(t.Context(), nameserver.String()+":53")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asks.Write(questions(t, 2000)); err != nil {
		t.Fatal(err)
	}
	asks.CloseWrite()
	for range 20 {
		refused := make(chan error, 1)
		go func() {
			_, err := r.connect(t.Context(), "192.0.2.7:81")
			refused <- err
		}()
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), "refused") {
				t.Fatal(err)
			}
		case d := <-r.dials:
			d.answer <- net.ErrClosed
			<-refused
			t.Fatal("another connection has the place of one to the name server")
		}
	}
	asks.Close() // resets it, because answers are unread
	for len(r.room) > 0 {
		runtime.Gosched()
	}
}

// TestNamesReset: a program may reset a connection to the name server while its questions are being answered.
func TestNamesReset(t *testing.T) {
	r := newRig(t, 4)
	before := panics.Total()
	for range 30 {
		asks, err := r.connect(t.Context(), nameserver.String()+":53")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := asks.Write(questions(t, 50)); err != nil {
			t.Fatal(err)
		}
		if _, err := asks.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		asks.Close() // resets it, because answers are unread
		for len(r.room) > 0 {
			runtime.Gosched()
		}
	}
	if n := panics.Total() - before; n > 0 {
		t.Errorf("%d panics", n)
	}
}
