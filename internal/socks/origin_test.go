package socks

import (
	"io"
	"testing"
)

// TestOriginPort: requests say by which port they came, streams and lookups alike.
func TestOriginPort(t *testing.T) {
	n := &network{}
	addr := start(t, NewSOCKS(Config{Dialer: n}))
	web := start(t, NewHTTP(Config{Dialer: n}))
	for _, cmd := range []byte{cmdConnect, cmdResolve} {
		c := dialTCP(t, addr)
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0)
		say(t, c, request5(cmd, "a.test", 80)...)
		io.ReadAll(c)
	}
	c := dialTCP(t, web)
	say(t, c, []byte("CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n")...)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	asked := n.requests()
	if len(asked) != 3 {
		t.Fatalf("%+v", asked)
	}
	for i, r := range asked {
		if want := []string{addr, addr, web}[i]; r.From.Port != want {
			t.Errorf("request %d came by %q, want %q", i, r.From.Port, want)
		}
	}
}
