package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"strconv"

	"github.com/chivenet/chive/relay"
)

// mask is a transport that looks like no TLS, by a byte that both sides know. It is an
// example: whoever looks twice is not deceived. Package chive has the client's side.
type mask struct{}

// Listen opens the bridge's port, and says what clients must know.
func (mask) Listen(ctx context.Context, cfg relay.TransportConfig) (net.Listener, map[string]string, error) {
	key, err := strconv.ParseUint(cfg.Options["byte"], 16, 8)
	if err != nil {
		return nil, nil, fmt.Errorf("the option byte: %w", err)
	}
	l, err := cfg.Listen(ctx, "tcp", cfg.Addr.String())
	if err != nil {
		return nil, nil, err
	}
	return maskedPort{l, byte(key)}, cfg.Options, nil
}

// maskedPort accepts masked connections.
type maskedPort struct {
	net.Listener
	key byte
}

func (p maskedPort) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return masked{conn, p.key}, nil
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

// A bridge with a transport of the program's own.
func ExampleTransport() {
	r, err := relay.New(relay.Config{
		DataDir: "bridge", Nickname: "mine", ORPort: []string{"127.0.0.1:9001"}, Bridge: true,
		Transports:             map[string]relay.Transport{"mask": mask{}},
		ServerTransportListen:  []string{"mask 0.0.0.0:443"},
		ServerTransportOptions: []string{"mask byte=5c"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	lines, err := r.BridgeLines(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lines[0]) // for the users
	<-r.Done()
}
