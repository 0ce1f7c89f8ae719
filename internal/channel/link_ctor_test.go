package channel

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/layer"
)

// ctor is one stock C tor relay on loopback.
type ctor struct {
	addr netip.AddrPort
	id   ident.RelayID

	mu    sync.Mutex
	more  sync.Cond
	said  []byte // guarded by mu: what it printed
	ended bool   // guarded by mu: it prints no more
}

// wait returns when the relay has printed words.
func (r *ctor) wait(t *testing.T, words string) {
	t.Helper()
	late := false
	timer := time.AfterFunc(60*time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		late = true
		r.more.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !bytes.Contains(r.said, []byte(words)) {
		if late || r.ended {
			t.Fatalf("tor did not say %q", words)
		}
		r.more.Wait()
	}
}

// after returns the rest of the line in which the relay has printed words.
func (r *ctor) after(t *testing.T, words string) string {
	t.Helper()
	r.wait(t, words)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, rest, _ := bytes.Cut(r.said, []byte(words))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(line)
}

// startTor starts C tor with a torrc and returns when it has said that it
// starts. Without tor the test is skipped, or fails when CHIVE_INTEROP=1.
func startTor(t *testing.T, dir string, lines ...string) *ctor {
	t.Helper()
	if testing.Short() {
		t.Skip("C tor is started by the long tests only")
	}
	program, err := exec.LookPath(cmp.Or(os.Getenv("CHIVE_TOR"), "tor"))
	if err != nil {
		if os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatalf("no tor: %v", err)
		}
		t.Skipf("NOT TESTED against C tor: %v", err)
	}
	r := &ctor{}
	r.more.L = &r.mu
	torrc := filepath.Join(dir, "torrc")
	// The authority does not exist: nothing here needs a consensus.
	lines = append(lines, "DataDirectory "+filepath.Join(dir, "data"), "TestingTorNetwork 1", "SafeLogging 0",
		"DirAuthority none orport=1 v3ident=0000000000000000000000000000000000000001 127.0.0.1:1 0000000000000000000000000000000000000002",
		"ShutdownWaitLength 0", "Log notice stdout", "Log [handshake,protocol,or]info stdout", "ProtocolWarnings 1")
	if err := os.WriteFile(torrc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--defaults-torrc", "/nonexistent", "-f", torrc)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.mu.Lock()
			r.said = append(append(r.said, s.Bytes()...), '\n')
			r.more.Broadcast()
			r.mu.Unlock()
		}
		r.mu.Lock()
		r.ended = true
		r.more.Broadcast()
		r.mu.Unlock()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
		if t.Failed() {
			t.Logf("tor said:\n%s", r.said)
		}
	})
	r.wait(t, "Bootstrapped 0%")
	return r
}

// startCtor starts a relay on loopback.
func startCtor(t *testing.T) *ctor {
	t.Helper()
	dir := t.TempDir()
	r := startTor(t, dir, "Nickname stock", "SocksPort 0", "Address 127.0.0.1", "ORPort 127.0.0.1:auto IPv4Only", "AssumeReachable 1", "ExitRelay 0", "ContactInfo none")
	opened := r.after(t, "Opened OR listener connection (ready) on ")
	var err error
	if r.addr, err = netip.ParseAddrPort(opened); err != nil {
		t.Fatal(err)
	}
	if r.id.RSA, err = ident.ParseRSAID(secondWord(t, filepath.Join(dir, "data", "fingerprint"))); err != nil {
		t.Fatal(err)
	}
	if r.id.Ed, err = ident.ParseEd25519ID(secondWord(t, filepath.Join(dir, "data", "fingerprint-ed25519"))); err != nil {
		t.Fatal(err)
	}
	return r
}

// secondWord reads a "NICKNAME FINGERPRINT" file.
func secondWord(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		t.Fatalf("%s: %q", file, b)
	}
	return f[1]
}

func (r *ctor) connect(t *testing.T, want ident.RelayID, cfg *LinkConfig) (*Link, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	l, err := Connect(ctx, raw, want, r.addr, cfg)
	if err == nil {
		t.Cleanup(func() { l.Conn.Close() })
	}
	return l, err
}

// nextCell reads the next cell of a link that is not padding.
func nextCell(t *testing.T, l *Link) []byte {
	t.Helper()
	l.Conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	for {
		for cell.Size(l.Leftover) == 0 || len(l.Leftover) < cell.Size(l.Leftover) {
			buf := make([]byte, 4096)
			n, err := l.Conn.Read(buf)
			if err != nil {
				t.Fatalf("waiting for a cell: %v", err)
			}
			l.Leftover = append(l.Leftover, buf[:n]...)
		}
		n := cell.Size(l.Leftover)
		c := l.Leftover[:n:n]
		l.Leftover = l.Leftover[n:]
		switch cell.Cmd(c) {
		case cell.CmdPadding, cell.CmdVPadding, cell.CmdPaddingNegotiate:
			continue
		}
		return c
	}
}

// send sends a fixed cell.
func send(t *testing.T, l *Link, id uint32, cmd cell.Command, body []byte) {
	t.Helper()
	if _, err := l.Conn.Write(cell.AppendFixed(nil, id, cmd, body)); err != nil {
		t.Fatal(err)
	}
}

// expect reads a cell of one kind on one circuit.
func expect(t *testing.T, l *Link, id uint32, cmd cell.Command) []byte {
	t.Helper()
	c := nextCell(t, l)
	if cell.Cmd(c) != cmd || cell.CircID(c) != id {
		t.Fatalf("%v on circuit %x (% x...), not %v on %x", cell.Cmd(c), cell.CircID(c), c[cell.HeaderLen:][:4], cmd, id)
	}
	return c
}

// createFast makes a circuit of one hop. It proves that the link carries cells
// both ways: the relay answers only on a link that it holds open.
func createFast(t *testing.T, l *Link, id uint32) *layer.Client {
	t.Helper()
	state, skin, err := handshake.Fast.Start(rand.Reader, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, l, id, cell.CmdCreateFast, skin)
	reply, err := cell.ParseCreatedFast(expect(t, l, id, cell.CmdCreatedFast)[cell.HeaderLen:])
	if err != nil {
		t.Fatal(err)
	}
	_, ks, err := state.Finish(reply[:])
	if err != nil {
		t.Fatal(err)
	}
	hop, err := layer.NewTor1Client(ks)
	if err != nil {
		t.Fatal(err)
	}
	return hop
}

// leafShape is what of a TLS certificate an onlooker could tell relays by, but
// for the names, times, keys and serial number, which are each relay's own.
func leafShape(t *testing.T, der []byte) string {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	name := func(raw []byte, cn string) string {
		return fmt.Sprintf("%x %s %s", raw[6:12], cn[:4], cn[len(cn)-4:]) // object identifier and string type, "www.", suffix
	}
	life := c.NotAfter.Sub(c.NotBefore)
	return fmt.Sprintf("version %d, %v signature of %d bytes, %v key of %d bits and exponent %d, %d extensions, subject %s, issuer %s, from %s, whole days or a second less %v, serial number up to 64 bits %v",
		c.Version, c.SignatureAlgorithm, len(c.Signature), c.PublicKeyAlgorithm, c.PublicKey.(*rsa.PublicKey).N.BitLen(), c.PublicKey.(*rsa.PublicKey).E, len(c.Extensions),
		name(c.RawSubject, c.Subject.CommonName), name(c.RawIssuer, c.Issuer.CommonName), c.NotBefore.Format("15:04:05"),
		life%(24*time.Hour) == 0 || (life+time.Second)%(24*time.Hour) == 0, c.SerialNumber.BitLen() <= 64)
}

func TestConnectToCtor(t *testing.T) {
	r := startCtor(t)
	t.Run("client", func(t *testing.T) {
		l, err := r.connect(t, r.id, &LinkConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if l.Version != 5 || l.Peer != r.id || !l.PeerAuthenticated || !l.Initiator || l.MyAddr != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%+v", l)
		}
		if !l.ClockSkewKnown || l.ClockSkew.Abs() > 30*time.Second {
			t.Errorf("clock skew %v %v", l.ClockSkewKnown, l.ClockSkew)
		}
		state := l.Conn.(*clientTLS).ConnectionState()
		t.Logf("TLS %s, %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
		if got, want := leafShape(t, keys(t).server.Certificates[0].Certificate[0]), leafShape(t, state.PeerCertificates[0].Raw); got != want {
			t.Errorf("Chive's TLS certificate is told from C tor's:\n%s\n%s", got, want)
		}
		createFast(t, l, 0x80000001)
	})
	t.Run("one identity", func(t *testing.T) {
		for _, want := range []ident.RelayID{{RSA: r.id.RSA}, {Ed: r.id.Ed}} {
			if l, err := r.connect(t, want, &LinkConfig{}); err != nil || l.Peer != r.id {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("another identity", func(t *testing.T) {
		for want, words := range map[ident.RelayID]string{
			{RSA: ident.RSAID{1}, Ed: r.id.Ed}:      "RSA identity is not the expected",
			{RSA: r.id.RSA, Ed: ident.Ed25519ID{1}}: "Ed25519 identity is not the expected",
		} {
			if _, err := r.connect(t, want, &LinkConfig{}); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("wrong clock", func(t *testing.T) {
		cfg := &LinkConfig{Now: func() time.Time { return time.Now().Add(60 * 24 * time.Hour) }}
		_, err := r.connect(t, r.id, cfg)
		if err == nil || !strings.Contains(err.Error(), "expired") || !strings.Contains(err.Error(), "the peer's clock minus this one is -1440h0m") {
			t.Error(err)
		}
		cfg.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		l, err := r.connect(t, r.id, cfg)
		if err != nil || !l.ClockSkewKnown || (l.ClockSkew-time.Hour).Abs() > 30*time.Second {
			t.Error(l, err)
		}
	})
	t.Run("relay", func(t *testing.T) {
		l, err := r.connect(t, r.id, &LinkConfig{Identity: keys(t), Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
		if err != nil {
			t.Fatal(err)
		}
		createFast(t, l, 0x80000001)
		// It knows who this is only by a good AUTHENTICATE.
		r.wait(t, "(open) with "+l.Conn.LocalAddr().String()+" ID="+keys(t).ID.Ed.String()+" RSA_ID="+keys(t).ID.RSA.String())
	})
}
