package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestOnionOptions has Chive host services with options, in a network of stock C tor: its
// relays are the introduction points, and its clients judge.
func TestOnionOptions(t *testing.T) {
	t.Parallel()
	nw := ctortest.Network(t, ctor.Options{Authorities: 3, Relays: 4, Exits: 2, Clients: 1})
	c, _ := host(t, nw)
	proxy := nw.Node("client0").SOCKS.String()
	t.Run("circuit id", func(t *testing.T) { exportsCircuit(t, c, proxy) })
	t.Run("several targets", func(t *testing.T) { spreads(t, nw, proxy) })
	t.Run("max streams", func(t *testing.T) { boundsStreams(t, c, proxy) })
	t.Run("introduction limit", func(t *testing.T) { limitsIntroductions(t, c, nw) })
	t.Run("reload", func(t *testing.T) { reloads(t, c, nw) })
	for _, n := range nw.Nodes {
		w, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, line := range w {
			t.Errorf("%s: %s", n.Name, line)
		}
	}
}

// heads is a server that gets two lines, and sends back the first.
func heads(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				line, err := r.ReadString('\n')
				if err == nil {
					_, err = r.ReadString('\n') // what is not read would reset the connection
				}
				if err == nil {
					_, _ = io.WriteString(conn, line)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// exportsCircuit: a target gets C tor's line before the client's bytes, the same on one
// circuit and another on another circuit.
func exportsCircuit(t *testing.T, c *chive.Client, proxy string) {
	l := serve(t, c, chive.OnionConfig{Ports: []int{}, Targets: map[int]string{80: heads(t)}, ExportCircuitID: "haproxy"})
	defer l.Close()
	ask := func(user string) string {
		d := socksclient.Dialer{Proxy: proxy, User: user, Pass: "x"}
		conn, err := d.DialContext(bounded(t, patience), "tcp", l.Address()+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "what a client sends\n"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one, again, other := ask("one"), ask("one"), ask("other")
	if !strings.HasPrefix(one, "PROXY TCP6 fc00:dead:beef:4dad::") || !strings.HasSuffix(one, " 80\r\n") || !strings.Contains(one, " ::1 ") {
		t.Errorf("%q", one)
	}
	if one != again || one == other {
		t.Errorf("%q and %q on one circuit, %q on another", one, again, other)
	}
}

// boundsStreams: a stream over MaxStreams is refused, and the others go on; there is room
// again when one has ended.
func boundsStreams(t *testing.T, c *chive.Client, proxy string) {
	const most = 2
	l := serve(t, c, chive.OnionConfig{Ports: []int{}, Targets: map[int]string{7: shared.target.Addr(target.Echo)}, MaxStreams: most})
	defer l.Close()
	d := socksclient.Dialer{Proxy: proxy, User: "streams", Pass: "x"}
	dial := func() (net.Conn, error) {
		return d.DialContext(bounded(t, patience), "tcp", l.Address()+":7")
	}
	echoes := func(conn net.Conn) {
		t.Helper()
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Error(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
			t.Errorf("%q %v", b, err)
		}
	}
	var open []net.Conn
	for range most {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
	}
	// C tor tells of CONNECTED before an answer came, or waits for it, by version: in both
	// cases nothing comes back.
	if conn, err := dial(); err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, "hello")
		if n, err := conn.Read(make([]byte, 5)); err == nil {
			t.Errorf("a third connection carries %d bytes", n)
		}
	}
	for _, conn := range open {
		echoes(conn)
	}
	st := l.Status()
	if st.StreamsRefused == 0 || st.Streams != most || st.Circuits != 1 {
		t.Errorf("%+v", st)
	}
	open[0].Close()
	for end := time.Now().Add(patience); l.Status().Streams == most; {
		if time.Now().After(end) {
			t.Fatal("a connection that was closed counts for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
	conn, err := dial()
	if err != nil {
		t.Fatal("a connection after another has ended:", err)
	}
	defer conn.Close()
	echoes(conn)
}

// limitsIntroductions: C tor's introduction points take the extension, and let no more
// introductions through than it says.
func limitsIntroductions(t *testing.T, c *chive.Client, nw *ctor.Network) {
	// C tor lets one less through than the burst says.
	const rate, burst, clients = 1, 3, 12
	l := serve(t, c, chive.OnionConfig{Ports: []int{}, Targets: map[int]string{7: shared.target.Addr(target.Echo)},
		IntroductionPoints: 1, IntroDoSDefense: true, IntroDoSRate: rate, IntroDoSBurst: burst})
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	done := make(chan error, clients)
	for i := range clients {
		go func() {
			d := socksclient.Dialer{Proxy: nw.Node("client0").SOCKS.String(), User: fmt.Sprint("limited ", i), Pass: "x"}
			done <- echo(ctx, d, l.Address()+":7", "hello")
		}()
	}
	good := 0
	for range clients {
		if err := <-done; err == nil {
			good++
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Log(err)
		}
	}
	// Once its only introduction point refuses one client, C tor gives up the others at
	// that service too. So the service tells who was let through.
	for end := time.Now().Add(patience); l.Status().Introductions == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody is let through")
		}
	}
	took := time.Since(began)
	st := l.Status()
	// The bucket is full at the start, and fills up each second.
	if most := burst + rate*(int(took/time.Second)+2); int(st.Introductions) > most {
		t.Errorf("%d introductions in %v, more than %d", st.Introductions, took, most)
	}
	t.Logf("%d of %d clients connected in %v, %d introductions", good, clients, took.Round(time.Millisecond), st.Introductions)
}

// reloads: a client is authorized and shut out while the service runs, and the stock
// client with the key connects.
func reloads(t *testing.T, c *chive.Client, nw *ctor.Network) {
	dir := filepath.Join(t.TempDir(), "service")
	cfg := chive.OnionConfig{KeyDir: dir, Ports: []int{}, Targets: map[int]string{7: shared.target.Addr(target.Echo)}}
	l := serve(t, c, cfg)
	defer l.Close()
	one := socksclient.Dialer{Proxy: nw.Node("client0").SOCKS.String(), User: "before", Pass: "x"}
	long, err := one.DialContext(bounded(t, patience), "tcp", l.Address()+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	before := l.Status()
	// uploaded waits until all directories have the descriptors of a later time.
	uploaded := func(since time.Time) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if st := l.Status(); st.Uploaded.After(since) && st.Missing == 0 && st.Launching == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", l.Status())
			}
		}
	}
	if _, err := hsservice.AddClient(dir, "alice", "", func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	uploaded(before.Uploaded)
	if err := reach(t, nw, l.Address()); !errors.Is(err, chive.ErrOnionNeedsAuth) {
		t.Errorf("a client without a key, after the reload: %v", err)
	}
	// What was open ends: nobody knows whether its client is one of those that may come now.
	if err := long.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := long.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection from before the authorization goes on: %d bytes, %v", n, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "authorized_clients")); err != nil {
		t.Fatal(err)
	}
	at := l.Status().Uploaded
	if err := l.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	uploaded(at)
	if err := reach(t, nw, l.Address()); err != nil {
		t.Errorf("a client, when everybody may connect again: %v", err)
	}
}

// reach has a new client open a connection, and says why it could not.
func reach(t *testing.T, nw *ctor.Network, address string) error {
	t.Helper()
	c, _ := host(t, nw)
	conn, err := c.DialContext(bounded(t, patience), "tcp", address+":7")
	if err == nil {
		conn.Close()
	}
	return err
}
