package chive_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strconv"

	"github.com/chivenet/chive"
)

// mask is a transport that looks like no TLS, by a byte that both sides know. It is an
// example: whoever looks twice is not deceived. Package relay has the bridge's side.
type mask struct{}

// Dial connects to a bridge by the function that it gets, and by nothing else.
func (mask) Dial(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), bridge netip.AddrPort, args map[string]string) (net.Conn, error) {
	key, err := strconv.ParseUint(args["byte"], 16, 8)
	if err != nil {
		return nil, fmt.Errorf("the argument byte: %w", err)
	}
	conn, err := dial(ctx, "tcp", bridge.String())
	if err != nil {
		return nil, err
	}
	return masked{conn, byte(key)}, nil
}

// masked is a connection whose bytes are masked.
type masked struct {
	net.Conn
	key byte
}

func (m masked) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.xor(b[:n])
	return n, err
}

func (m masked) Write(b []byte) (int, error) {
	b = bytes.Clone(b) // it is the caller's
	m.xor(b)
	return m.Conn.Write(b)
}

func (m masked) xor(b []byte) {
	for i := range b {
		b[i] ^= m.key
	}
}

// A transport of the program's own, for bridges that offer it.
func ExampleTransport() {
	client, err := chive.New(chive.Config{
		Bridges:    []string{"mask 192.0.2.1:443 0123456789ABCDEF0123456789ABCDEF01234567 byte=5c"},
		Transports: map[string]chive.Transport{"mask": mask{}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	conn, err := client.Dial("tcp", "example.com:80")
	if err != nil {
		log.Fatal(err)
	}
	conn.Close()
}
