package plugin

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/fte"
)

// TestServerConnections: a bridge carries no more connections than it was told.
func TestServerConnections(t *testing.T) {
	or, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer or.Close()
	go func() {
		for {
			c, err := or.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	srv := start(t, map[string]string{
		"TOR_PT_SERVER_TRANSPORTS": "fte", "TOR_PT_SERVER_BINDADDR": "fte-127.0.0.1:0", "TOR_PT_ORPORT": or.Addr().String(),
		"TOR_PT_SERVER_TRANSPORT_OPTIONS": "fte:max-connections=2",
	})
	line := field(t, srv.until(t, "SMETHODS DONE"), "SMETHOD fte ")
	go io.Copy(io.Discard, srv.out)
	addr, args, _ := strings.Cut(line, " ")
	if strings.Contains(args, "max") {
		t.Errorf("clients are told %q", args)
	}
	client, err := fte.Classic{}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(time.Minute))
		c := client.Wrap(raw)
		if _, err := c.Write([]byte("x")); err != nil {
			continue
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			served++
		}
	}
	if served != 2 {
		t.Errorf("%d connections are carried, of 2 that may be", served)
	}
}
