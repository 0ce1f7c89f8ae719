package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// The transport of the examples of packages chive and relay; TestExampleTransport compares them.
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

// declared returns the declarations of a file, as it has them, by their first lines.
func declared(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, d := range f.Decls {
		var b bytes.Buffer
		if err := format.Node(&b, fset, d); err != nil {
			t.Fatal(err)
		}
		code := b.String()
		for strings.HasPrefix(code, "//") {
			_, code, _ = strings.Cut(code, "\n")
		}
		first, _, _ := strings.Cut(code, "\n")
		all[first] = code
	}
	return all
}

// TestExampleTransport: what the documents show of a transport is what TestTransport runs.
func TestExampleTransport(t *testing.T) {
	ours := declared(t, "transport_test.go")
	seen := 0
	for _, path := range []string{"../example_transport_test.go", "../relay/example_transport_test.go"} {
		for first, code := range declared(t, path) {
			if strings.HasPrefix(first, "import") || strings.HasPrefix(first, "func Example") {
				continue
			}
			if seen++; ours[first] != code {
				t.Errorf("%s: %s is another here", path, first)
			}
		}
	}
	if seen != 6+8 {
		t.Errorf("%d declarations were compared", seen)
	}
}

// TestTransport: a client and a bridge use a transport of a program's own, and those that Chive has, in one process.
// The client connects to nothing but the transports' ports.
func TestTransport(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Bridges: 1, Relay: func(name string, cfg *relay.Config) {
		if !cfg.Bridge {
			return
		}
		cfg.Transports = map[string]relay.Transport{"mask": mask{}}
		cfg.ServerTransportListen = []string{"mask 127.0.0.1:0", "chive 127.0.0.1:0", "fte 127.0.0.1:0"}
		cfg.ServerTransportOptions = []string{"mask byte=5c", "fte key=" + strings.Repeat("5c", 32)}
	}})
	n := nw.Node("chivebridge0")
	if len(n.Bridge) != 4 {
		t.Fatalf("%v", n.Bridge)
	}
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range n.Bridge[1:] {
		name, rest, _ := strings.Cut(line, " ")
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			addr, _, _ := strings.Cut(rest, " ")
			c, err := chive.New(chive.Config{
				Network: network, DataDir: t.TempDir(), Bridges: []string{line}, ReachableAddresses: []string{addr},
				Transports: map[string]chive.Transport{"mask": mask{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			echo(t, ctx, c.DialContext, nw.Echo)
			if b := c.Status().Bridges; len(b) != 1 || b[0].Transport != name || !b[0].Usable || b[0].Fingerprint != n.Fingerprint {
				t.Errorf("%+v", b)
			}
			if !slices.ContainsFunc(c.Status().Open, func(o chive.CircuitStatus) bool { return len(o.Path) > 0 && o.Path[0] == n.Fingerprint }) {
				t.Error("no circuit begins at the bridge")
			}
		})
	}
}
