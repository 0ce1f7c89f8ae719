package exit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/stream"
)

// nameserver answers on loopback: "echo.test" is 127.0.0.1, "six.test" has no
// IPv4 address, "slow.test" gets no answer, and other names do not exist.
func nameserver(t *testing.T) netip.AddrPort {
	t.Helper()
	return serveDNS(t, func(w dns.ResponseWriter, m *dns.Msg) {
		q := m
		name := q.Question[0].Name
		switch {
		case name == "slow.test.":
			return
		case name == "echo.test." && q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR("echo.test. 30 IN A 127.0.0.1")
			m.Answer = append(m.Answer, rr)
		case name == "six.test." && q.Question[0].Qtype == dns.TypeAAAA:
			rr, _ := dns.NewRR("six.test. 7200 IN AAAA ::1")
			m.Answer = append(m.Answer, rr)
		case name == "7.2.0.192.in-addr.arpa.":
			rr, _ := dns.NewRR("7.2.0.192.in-addr.arpa. 600 IN PTR echo.test.")
			m.Answer = append(m.Answer, rr)
		case name != "echo.test." && name != "six.test.":
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})
}

// listenBoth opens a port of TCP and of UDP with the same number.
func listenBoth(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		if err == nil {
			return ln, pc
		}
		ln.Close()
		if !errors.Is(err, syscall.EADDRINUSE) { // else another program has the number for UDP
			t.Fatal(err)
		}
	}
}

// serveDNS runs a name server over UDP and TCP; answer writes each reply.
func serveDNS(t *testing.T, answer func(w dns.ResponseWriter, m *dns.Msg)) netip.AddrPort {
	t.Helper()
	return handleDNS(t, func(w dns.ResponseWriter, q *dns.Msg) { answer(w, new(dns.Msg).SetReply(q)) })
}

// handleDNS is serveDNS for what reads the question.
func handleDNS(t *testing.T, h dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	ln, pc := listenBoth(t)
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: ln, Handler: h}} {
		go srv.ActivateAndServe()
		t.Cleanup(func() { srv.Shutdown() })
	}
	return netip.MustParseAddrPort(pc.LocalAddr().String())
}

func echoServer(t *testing.T) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return uint16(ln.Addr().(*net.TCPAddr).Port)
}

// setup makes an exit behind a simulated relay, and a circuit to it.
func setup(t *testing.T, cfg *Config, dir *dirserver.Server) (*Exit, *circuit.Circuit) {
	t.Helper()
	e, circs := circuits(t, 1, cfg, dir)
	return e, circs[0]
}

func accept(t *testing.T, lines ...string) *Config {
	t.Helper()
	ns := nameserver(t)
	p, err := ParsePolicy(lines)
	if err != nil {
		t.Fatal(err)
	}
	return &Config{Policy: p, Private: true, Nameservers: []netip.AddrPort{ns}, ConnectTimeout: 30 * time.Second}
}

func dial(t *testing.T, c *circuit.Circuit, host string, port uint16) (*stream.Stream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return stream.Dial(ctx, c.Last(), host, port)
}

func wantEnd(t *testing.T, err error, reason cell.EndReason) {
	t.Helper()
	var end *stream.EndError
	if !errors.As(err, &end) || end.Reason != reason {
		t.Errorf("%v, not %v", err, reason)
	}
}

func TestExitCarries(t *testing.T) {
	port := echoServer(t)
	_, c := setup(t, accept(t, "accept *:*"), nil)
	for _, host := range []string{"127.0.0.1", "echo.test", "ECHO.test"} {
		s, err := dial(t, c, host, port)
		if err != nil {
			t.Fatal(host, err)
		}
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
		go s.Write(want)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
			t.Fatal(host, err)
		}
		if s.ExitAddr() != netip.MustParseAddr("127.0.0.1") {
			t.Error(s.ExitAddr())
		}
		s.Close()
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestExitRefuses(t *testing.T) {
	port := echoServer(t)
	var lease ports.Leases
	t.Cleanup(lease.Release)
	free, err := lease.Take(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	_, c := setup(t, accept(t, "reject *:"+strconv.Itoa(int(port)), "accept *:*"), nil)
	for _, x := range []struct {
		host   string
		port   uint16
		reason cell.EndReason
	}{
		{"127.0.0.1", port, cell.EndExitPolicy}, {"echo.test", port, cell.EndExitPolicy}, {"::1", 80, cell.EndExitPolicy},
		{"nosuch.test", 80, cell.EndResolveFailed}, {"127.0.0.1", free, cell.EndConnectRefused},
	} {
		_, err := dial(t, c, x.host, x.port)
		wantEnd(t, err, x.reason)
		// C tor takes an exit that does not say which address it refuses for one that refuses all.
		var end *stream.EndError
		if errors.As(err, &end) && end.Addr.IsValid() != (x.reason == cell.EndExitPolicy) {
			t.Errorf("%s: the address told is %v", x.host, end.Addr)
		}
	}
	_, err = stream.BeginDir(c.Last())
	if err != nil {
		t.Fatal(err)
	}
	if c.Err() != nil || c.Last().Streams() > 1 {
		t.Error("the circuit must live", c.Err())
	}
	// The network's own ports are refused with C tor's reason.
	e, in := setup(t, accept(t, "accept *:*"), nil)
	e.opts.Inside = func(a netip.AddrPort) bool { return a == netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port) }
	for _, host := range []string{"127.0.0.1", "echo.test"} {
		_, err := dial(t, in, host, port)
		wantEnd(t, err, cell.EndConnectRefused)
	}
	// A relay that is no exit refuses all.
	_, none := setup(t, nil, nil)
	_, err = dial(t, none, "127.0.0.1", port)
	wantEnd(t, err, cell.EndExitPolicy)
}

func TestExitTimesOut(t *testing.T) {
	cfg := accept(t, "accept *:*")
	cfg.ConnectTimeout = 100 * time.Millisecond
	_, c := setup(t, cfg, nil)
	_, err := dial(t, c, "slow.test", 80)
	wantEnd(t, err, cell.EndTimeout)
}

func TestExitResolves(t *testing.T) {
	cfg := accept(t, "accept *:*")
	cfg.IPv6 = true
	e, c := setup(t, cfg, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	a, err := stream.Resolve(ctx, c.Last(), "echo.test")
	if err != nil || len(a) != 1 || a[0].Addr.String() != "127.0.0.1" || a[0].TTL != toldTTL {
		t.Error(a, err)
	}
	a, err = stream.Resolve(ctx, c.Last(), "six.test")
	if err != nil || len(a) != 1 || a[0].Addr.String() != "::1" || a[0].TTL != toldTTL {
		t.Error(a, err)
	}
	before := e.opts.Stats.CacheHits.Load()
	if _, err = stream.Resolve(ctx, c.Last(), "six.test"); err != nil || e.opts.Stats.CacheHits.Load() < before+2 {
		t.Error("the answer is not in the cache", err)
	}
	if _, err = stream.Resolve(ctx, c.Last(), "nosuch.test"); err == nil {
		t.Error("a name that does not exist has an address")
	}
	name := cell.ReverseName(netip.MustParseAddr("192.0.2.7"))
	if a, err = stream.Resolve(ctx, c.Last(), name); err != nil || len(a) != 1 || a[0].Name != "echo.test" {
		t.Error(a, err)
	}
}

func TestExitLimits(t *testing.T) {
	port := echoServer(t)
	cfg := accept(t, "accept *:*")
	cfg.MaxPerCircuit = 3
	e, c := setup(t, cfg, nil)
	for range 3 {
		if _, err := dial(t, c, "127.0.0.1", port); err != nil {
			t.Fatal(err)
		}
	}
	_, err := dial(t, c, "127.0.0.1", port)
	wantEnd(t, err, cell.EndMisc)
	e.SetStreamLimit(&StreamLimit{Pace: pace.Limit{Rate: 0.001, Burst: 1}, Destroy: true})
	for range 3 {
		dial(t, c, "127.0.0.1", port)
	}
	<-c.Done()
}

func TestExitServesDirectory(t *testing.T) {
	_, c := setup(t, nil, dirserver.New(dirserver.Config{Docs: new(dirserver.Memory), Extra: func(context.Context, dirserver.Peer, *dirserver.Request) *dirserver.Response {
		return dirserver.OK([]byte("document"), 0)
	}}))
	s, err := stream.BeginDir(c.Last())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err != nil || !strings.HasSuffix(string(b), "document") {
		t.Errorf("%q %v", b, err)
	}
}

// When a circuit closes, its connections close.
func TestCircuitEndsConnections(t *testing.T) {
	port := echoServer(t)
	e, c := setup(t, accept(t, "accept *:*"), nil)
	if _, err := dial(t, c, "127.0.0.1", port); err != nil {
		t.Fatal(err)
	}
	c.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
	known := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.circs)
	}
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	for e.conns.Load() > 0 || known() > 0 {
		select {
		case <-end.C:
			t.Fatalf("%d connections stay, and %d circuits are not forgotten", e.conns.Load(), known())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy([]string{"reject private:*, accept *:80-90", "accept6 [2001:db8::]/32:443", "reject *:*"})
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]bool{"192.0.2.1:80": true, "10.0.0.1:80": false, "192.0.2.1:91": false, "[2001:db8::1]:443": true, "[2001:db9::1]:85": true, "[2001:db9::1]:443": false} {
		a := netip.MustParseAddrPort(s)
		if p.Allows(a.Addr(), a.Port()) != want {
			t.Errorf("%s: not %v", s, want)
		}
	}
	for _, l := range []string{"", "allow *:*", "accept *:0", "accept 1.2.3:*", "accept6 1.2.3.4:*", "accept ::1:80", "accept *:65536"} {
		if p, err := ParsePolicy([]string{l}); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v %v", l, p, err)
		}
	}
	d := DefaultPolicy()
	if d.Allows(netip.MustParseAddr("192.0.2.1"), 25) || !d.Allows(netip.MustParseAddr("192.0.2.1"), 443) || d.Allows(netip.MustParseAddr("2001:db8::1"), 25) || !d.Allows(netip.MustParseAddr("2001:db8::1"), 443) {
		t.Error("the default policy")
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"accept *:*", "reject private:*", "accept6 [2001:db8::]/32:1-2", "reject 1.2.3.4/255.0.0.0:25,accept *:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePolicy([]string{s})
		if err != nil {
			return
		}
		for _, r := range p {
			if line := r.String(); !strings.HasPrefix(line, "accept ") && !strings.HasPrefix(line, "reject ") {
				t.Fatal(line)
			}
		}
		p.Summarize(false)
	})
}
