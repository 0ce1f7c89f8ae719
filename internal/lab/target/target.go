// Package target has the servers to which tests and measurements connect through a
// network: a web server, raw TCP services and a name server on loopback. They log the
// source of each connection. Every byte that they send is known in advance.
//
// The services, each on one port of 127.0.0.1 and, if the machine has IPv6, the same
// port of ::1:
//
//	Web     GET /bytes/N sends N known bytes; POST /upload answers with what it
//	        received, as JSON: {"bytes":N,"sha256":"hex"}; GET /whence answers with
//	        the address that the request came from; GET / says hello
//	Echo    sends back what it reads; on end of input it sends the rest and ends
//	Source  reads a count (8 bytes, big endian) and sends that many known bytes
//	Sink    reads a count (8 bytes, big endian) and that many bytes, and answers
//	        with their SHA-256 (32 bytes): Tor's streams end in both directions at
//	        once, so that the end of the input could not tell it to answer
package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Service is one of the target's TCP services.
type Service uint8

// The services.
const (
	Web Service = iota
	Echo
	Source
	Sink
	services
)

// String returns the service's name.
func (s Service) String() string { return [...]string{"web", "echo", "source", "sink"}[s] }

// Conn is one connection that a service accepted.
type Conn struct {
	Service Service
	From    netip.AddrPort // its remote address, usually that of an exit
	At      time.Time
}

// maxLogged bounds the log of connections; the oldest are dropped first.
const maxLogged = 1 << 16

// Target is the running set of servers.
type Target struct {
	ports [services]uint16
	dns   *net.UDPConn
	ipv6  bool
	web   *http.Server

	wg sync.WaitGroup // all serving goroutines

	mu        sync.Mutex
	listeners []net.Listener        // guarded by mu
	open      map[net.Conn]struct{} // guarded by mu: raw connections, closed by Close
	log       []Conn                // guarded by mu
	closed    bool                  // guarded by mu
}

// Start starts all services on free ports.
func Start() (*Target, error) {
	t := &Target{open: map[net.Conn]struct{}{}}
	t.web = &http.Server{Handler: t.handler(), ReadHeaderTimeout: 30 * time.Second}
	for s := range services {
		if err := t.listen(s); err != nil {
			t.Close()
			return nil, err
		}
	}
	var err error
	if t.dns, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Close()
		return nil, fault.New(fault.Local, "name server: %w", err)
	}
	t.wg.Go(t.serveDNS)
	return t, nil
}

// listen opens a service's port on both loopback addresses.
func (t *Target) listen(s Service) error {
	for range 20 {
		four, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return fault.New(fault.Local, "%s target: %w", s, err)
		}
		t.ports[s] = uint16(four.Addr().(*net.TCPAddr).Port)
		six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(int(t.ports[s]))))
		if errors.Is(err, errInUse) {
			four.Close() // the port on ::1 is in use: try another
			continue
		}
		t.serve(s, four)
		if t.ipv6 = err == nil; t.ipv6 {
			t.serve(s, six)
		}
		return nil
	}
	return fault.New(fault.Local, "%s target: no port is free on both 127.0.0.1 and ::1", s)
}

func (t *Target) serve(s Service, ln net.Listener) {
	t.mu.Lock()
	t.listeners = append(t.listeners, ln)
	t.mu.Unlock()
	t.wg.Go(func() {
		if s == Web {
			t.web.Serve(&logged{ln, t}) // ends with ErrServerClosed at Close
			return
		}
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed
			}
			t.note(s, c)
			t.wg.Go(func() { t.raw(s, c.(*net.TCPConn)) })
		}
	})
}

// logged logs the connections that the web server accepts.
type logged struct {
	net.Listener
	t *Target
}

func (l *logged) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.t.note(Web, c)
	}
	return c, err
}

func (t *Target) note(s Service, c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.log) == maxLogged {
		t.log = append(t.log[:0], t.log[maxLogged/2:]...)
	}
	t.log = append(t.log, Conn{s, netaddr.OfPort(c.RemoteAddr()), time.Now()})
}

// Conns returns the connections accepted since t0, the oldest first.
func (t *Target) Conns(t0 time.Time) []Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Conn
	for _, c := range t.log {
		if !c.At.Before(t0) {
			out = append(out, c)
		}
	}
	return out
}

// Addr returns the service's IPv4 address and port.
func (t *Target) Addr(s Service) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), t.ports[s]).String()
}

// Addr6 returns the service's IPv6 address and port, or "" without IPv6.
func (t *Target) Addr6(s Service) string {
	if !t.ipv6 {
		return ""
	}
	return netip.AddrPortFrom(netip.IPv6Loopback(), t.ports[s]).String()
}

// NameAddr returns the service's address with one of the name server's names.
func (t *Target) NameAddr(s Service, name string) string {
	return net.JoinHostPort(name, strconv.Itoa(int(t.ports[s])))
}

// Nameserver returns the name server's address (UDP).
func (t *Target) Nameserver() netip.AddrPort {
	a := t.dns.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// URL returns the web server's address for GET /bytes/n.
func (t *Target) URL(n int64) string {
	return "http://" + t.Addr(Web) + "/bytes/" + strconv.FormatInt(n, 10)
}

// Close ends all servers and their connections, and waits for them.
func (t *Target) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	for _, ln := range t.listeners {
		ln.Close()
	}
	for c := range t.open {
		c.Close()
	}
	t.mu.Unlock()
	if t.dns != nil {
		t.dns.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no grace: Shutdown with it only closes what is idle
	t.web.Shutdown(ctx)
	err := t.web.Close()
	t.wg.Wait()
	return err
}
