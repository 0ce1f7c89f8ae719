package exit

import (
	"context"
	"io"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/panics/panicstest"
	"github.com/chivenet/chive/internal/stream"
)

// TestPanicEndsAStream: a panic in the goroutine of a stream ends that stream
// with INTERNAL; the circuit's other streams continue, and the stream is no
// longer counted.
func TestPanicEndsAStream(t *testing.T) {
	panicstest.Expect(t, 1)
	port := echoServer(t)
	cfg := accept(t, "accept *:*")
	cfg.MaxPerCircuit = 2
	e, c := setup(t, cfg, dirserver.New(dirserver.Config{Docs: new(dirserver.Memory), Extra: func(context.Context, dirserver.Peer, *dirserver.Request) *dirserver.Response {
		panic("a mistake")
	}}))
	other, err := dial(t, c, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.BeginDir(c.Last())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Read(make([]byte, 1))
	wantEnd(t, err, cell.EndInternal)
	if _, err := other.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	other.Close()
	e.Close() // which waits for every stream
	if n := e.conns.Load(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
