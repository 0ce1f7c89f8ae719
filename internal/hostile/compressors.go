package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/dirserver"
)

// makeCompressors makes the compressors of directory servers, which the process
// keeps. Their channels must not come from a bubble: no other bubble could use them.
var makeCompressors = sync.OnceValue(func() error {
	s := dirserver.New(dirserver.Config{Docs: new(dirserver.Memory), Extra: func(context.Context, dirserver.Peer, *dirserver.Request) *dirserver.Response {
		return dirserver.OK(make([]byte, 1<<12), 0)
	}})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l := &oneAtATime{conns: make(chan net.Conn), closed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	for _, enc := range []string{"x-zstd", "gzip"} {
		a, b := net.Pipe()
		l.conns <- b
		if _, err := fmt.Fprintf(a, "GET / HTTP/1.0\r\nAccept-Encoding: %s\r\n\r\n", enc); err != nil {
			return err
		}
		answer, err := io.ReadAll(a)
		if err != nil || !bytes.Contains(answer, []byte("Content-Encoding: "+enc)) {
			return fmt.Errorf("no answer in %s: %.100q, %v", enc, answer, err)
		}
		a.Close()
	}
	stop()
	return <-ended
})

// oneAtATime is a listener whose connections are handed to it.
type oneAtATime struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneAtATime) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneAtATime) Addr() net.Addr { return &net.TCPAddr{} }

func (l *oneAtATime) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
