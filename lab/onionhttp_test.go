package lab_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestOnionAddrsSplit: the addresses of an onion service's connection have a host and a port, and no
// IP address of a client, whom nobody knows.
func TestOnionAddrsSplit(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 3, Exits: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{80}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })}
	accepted := make(chan *chive.OnionConn, 1)
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		accepted <- c.(*chive.OnionConn)
		return ctx
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Close()
		<-served
	}()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	web := nw.Client.HTTPClient()
	defer web.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	if host, port, err := net.SplitHostPort(string(body)); err != nil || host == "" || port == "" || net.ParseIP(host) != nil {
		t.Errorf("the server reads %q: %v", body, err)
	}
	if host, port, err := net.SplitHostPort(c.LocalAddr().String()); err != nil || host != l.Address() || port != "80" {
		t.Errorf("the local address is %q: %v", c.LocalAddr(), err)
	}
	if !bytes.Equal(body, []byte(c.RemoteAddr().String())) || !c.CircuitAddr().IsValid() || c.Circuit() == 0 {
		t.Errorf("%q, circuit %d", c.RemoteAddr(), c.Circuit())
	}
}

// TestOnionHTTPS: a web server speaks TLS inside the onion service's connections, and a client that knows its
// certificate believes it.
func TestOnionHTTPS(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 3, Exits: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{443}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg, err := l.TLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: cfg, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+" "+r.Proto) })}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, "", "") }()
	defer func() {
		server.Close()
		<-served
	}()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cfg.Certificates[0].Leaf)
	web := &http.Transport{DialContext: nw.Client.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer web.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != l.Address()+" HTTP/2.0" {
		t.Errorf("%q, %v", body, err)
	}
	stranger := nw.Client.HTTPClient()
	defer stranger.CloseIdleConnections()
	if resp, err := stranger.Do(req); err == nil {
		resp.Body.Close()
		t.Error("who does not know the certificate believes it")
	}
}
