package socks_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/socks"
)

// A server that connects without Tor, and that only alice may use.
func ExampleServer() {
	s := &socks.Server{
		Dial: new(net.Dialer).DialContext,
		Auth: func(ctx context.Context, user, password string) (context.Context, error) {
			if user != "alice" || password != "secret" {
				return nil, socks.ErrPolicy
			}
			return ctx, nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	// A program that uses it.
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer site.Close()
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5h", User: url.UserPassword("alice", "secret"), Host: l.Addr().String()})}
	resp, err := (&http.Client{Transport: transport}).Get(site.URL)
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	transport.CloseIdleConnections()
	fmt.Println(string(text), err)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(s.Shutdown(ctx), <-served)
	// Output:
	// hello <nil>
	// <nil> <nil>
}

// A SOCKS port of a Tor client, whose users share no circuits.
func ExampleServer_tor() {
	client, err := chive.New(chive.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s := &socks.Server{
		Dial:   client.DialContext,
		Lookup: client.Resolve,
		Auth: func(ctx context.Context, user, password string) (context.Context, error) {
			return chive.WithIsolation(ctx, user+"\x00"+password), nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:9050")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(s.Serve(l))
}
