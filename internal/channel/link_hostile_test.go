package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
)

// The cells of an honest responder.
func versionsCell() []byte                     { return linkVersions.AppendCell(nil) }
func certsCell(c cell.Certs) []byte            { return cell.AppendVar(nil, 0, cell.CmdCerts, c.Append(nil)) }
func varCell(c cell.Command, b ...byte) []byte { return cell.AppendVar(nil, 0, c, b) }
func challengeCell() []byte {
	return varCell(cell.CmdAuthChallenge, (&cell.AuthChallenge{Methods: []uint16{1, 3}}).Append(nil)...)
}
func netinfoCell() []byte {
	m := cell.Netinfo{Time: uint32(time.Now().Unix()), Mine: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	return cell.AppendFixed(nil, 0, cell.CmdNetinfo, m.Append(nil))
}
func circID(c []byte) []byte { c = bytes.Clone(c); c[3] = 9; return c }

// earlyPadding is a VPADDING and an AUTHORIZE cell as they are before VERSIONS.
var earlyPadding = []byte{0, 0, byte(cell.CmdVPadding), 0, 2, 1, 2, 0, 0, byte(cell.CmdAuthorize), 0, 0}

// latePadding is one of each cell that is ignored after VERSIONS.
var latePadding = bytes.Join([][]byte{varCell(cell.CmdVPadding, 1, 2, 3), varCell(cell.CmdAuthorize), cell.AppendFixed(nil, 0, cell.CmdPadding, nil)}, nil)

// connectTo runs Connect against a responder that does TLS as an honest one and
// then sends the script, whatever it hears, in writes of chunk bytes.
func connectTo(t *testing.T, script []byte, chunk int) (*Link, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		conn := tls.Server(b, keys(t).server)
		go io.Copy(io.Discard, conn)
		for len(script) > 0 {
			n := min(chunk, len(script))
			if _, err := conn.Write(script[:n]); err != nil {
				return
			}
			script = script[n:]
		}
		_ = conn.CloseWrite() // a Connect that wants more than it should ends at once
		<-ctx.Done()
	}()
	l, err := Connect(ctx, a, keys(t).ID, netip.MustParseAddrPort("127.0.0.1:9001"), &LinkConfig{})
	cancel()
	a.Close()
	<-done
	return l, err
}

func refused(t *testing.T, l *Link, err error, want string) {
	t.Helper()
	if l != nil || err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Protocol) {
		t.Errorf("%v (%v), which does not say %q", err, fault.KindOf(err), want)
	}
}

func TestPaddingAndPieces(t *testing.T) {
	certs := get(t, relayA).certs(keys(t).responder)
	script := bytes.Join([][]byte{earlyPadding, versionsCell(), latePadding, certsCell(with(certs, 99, []byte("unknown type"))), latePadding, challengeCell(), latePadding, netinfoCell(), []byte("behind")}, nil)
	for _, chunk := range []int{1, 7, 514, len(script)} {
		l, err := connectTo(t, bytes.Clone(script), chunk)
		if err != nil || l.Peer != keys(t).ID || !strings.HasPrefix("behind", string(l.Leftover)) || chunk == len(script) && len(l.Leftover) != 6 {
			t.Errorf("pieces of %d: %+v %v", chunk, l, err)
		}
	}
}

func TestLinkVersions(t *testing.T) {
	certs := certsCell(get(t, relayA).certs(keys(t).responder))
	for v, want := range map[uint16]cell.Versions{4: {3, 4}, 5: {9, 5, 4, 3}} {
		l, err := connectTo(t, bytes.Join([][]byte{want.AppendCell(nil), certs, challengeCell(), netinfoCell()}, nil), 1<<16)
		if err != nil || l.Version != v {
			t.Errorf("%v: %+v %v", want, l, err)
		}
	}
}

func TestHostileResponderCells(t *testing.T) {
	certs := certsCell(get(t, relayA).certs(keys(t).responder))
	v, ch, n := versionsCell(), challengeCell(), netinfoCell()
	for name, c := range map[string]struct {
		want   string
		script [][]byte
	}{
		"no common version":         {"no link protocol in common: the peer has [1 2 3]", [][]byte{cell.Versions{1, 2, 3}.AppendCell(nil)}},
		"no version":                {"no link protocol in common", [][]byte{cell.Versions{}.AppendCell(nil)}},
		"odd VERSIONS":              {"VERSIONS: offset 2", [][]byte{{0, 0, 7, 0, 3, 0, 4, 0}}},
		"circuit ID in VERSIONS":    {"VERSIONS: circuit ID 1", [][]byte{{0, 1, 7, 0, 2, 0, 4}}},
		"CERTS before VERSIONS":     {"CERTS before VERSIONS", [][]byte{{0, 0, 129, 0, 1, 0}}},
		"PADDING before VERSIONS":   {"PADDING before VERSIONS", [][]byte{append([]byte{0, 0, 0}, make([]byte, cell.PayloadLen)...)}},
		"RELAY before VERSIONS":     {"RELAY before VERSIONS", [][]byte{append([]byte{0, 0, 3}, make([]byte, cell.PayloadLen)...)}},
		"VERSIONS again":            {"VERSIONS while waiting for CERTS", [][]byte{v, varCell(cell.CmdVersions, 0, 4)}},
		"NETINFO first":             {"NETINFO while waiting for CERTS", [][]byte{v, n}},
		"AUTH_CHALLENGE first":      {"AUTH_CHALLENGE while waiting for CERTS", [][]byte{v, ch, certs, n}},
		"no AUTH_CHALLENGE":         {"NETINFO while waiting for AUTH_CHALLENGE", [][]byte{v, certs, n}},
		"CERTS again":               {"CERTS while waiting for AUTH_CHALLENGE", [][]byte{v, certs, certs}},
		"AUTH_CHALLENGE again":      {"AUTH_CHALLENGE while waiting for NETINFO", [][]byte{v, certs, ch, ch}},
		"CERTS late again":          {"CERTS while waiting for NETINFO", [][]byte{v, certs, ch, certs}},
		"AUTHENTICATE":              {"AUTHENTICATE while waiting for NETINFO", [][]byte{v, certs, ch, varCell(cell.CmdAuthenticate, 0, 3, 0, 0)}},
		"CREATED2":                  {"CREATED2 while waiting for NETINFO", [][]byte{v, certs, ch, cell.AppendFixed(nil, 0, cell.CmdCreated2, nil)}},
		"RELAY":                     {"RELAY while waiting for CERTS", [][]byte{v, cell.AppendFixed(nil, 0, cell.CmdRelay, nil)}},
		"unknown variable cell":     {"command 200 while waiting for CERTS", [][]byte{v, varCell(200)}},
		"circuit ID in CERTS":       {"CERTS: circuit ID 9", [][]byte{v, circID(certs)}},
		"circuit ID in challenge":   {"AUTH_CHALLENGE: circuit ID 9", [][]byte{v, certs, circID(ch)}},
		"circuit ID in NETINFO":     {"NETINFO: circuit ID 9", [][]byte{v, certs, ch, circID(n)}},
		"circuit ID in padding":     {"VPADDING: circuit ID 9", [][]byte{v, circID(varCell(cell.CmdVPadding))}},
		"empty CERTS":               {"CERTS: offset 0", [][]byte{v, varCell(cell.CmdCerts), ch, n}},
		"truncated CERTS":           {"CERTS: offset 4: 9 bytes wanted", [][]byte{v, varCell(cell.CmdCerts, 1, 4, 0, 9), ch, n}},
		"truncated AUTH_CHALLENGE":  {"AUTH_CHALLENGE: offset 0: 32 bytes wanted", [][]byte{v, certs, varCell(cell.CmdAuthChallenge, 1, 2), n}},
		"AUTH_CHALLENGE's methods":  {"AUTH_CHALLENGE: offset 34: 512 bytes wanted", [][]byte{v, certs, varCell(cell.CmdAuthChallenge, append(make([]byte, 32), 1, 0)...), n}},
		"NETINFO runs out of space": {"NETINFO: offset", [][]byte{v, certs, ch, cell.AppendFixed(nil, 0, cell.CmdNetinfo, bytes.Repeat([]byte{255}, 509))}},
		"endless padding":           {"more than 49152 bytes while waiting for CERTS", [][]byte{v, bytes.Repeat(latePadding, 250)}},
		"large cells":               {"more than 49152 bytes while waiting for CERTS", [][]byte{v, bytes.Repeat(varCell(cell.CmdVPadding, make([]byte, 0xffff)...), 2)}},
		"large early cells":         {"more than 49152 bytes while waiting for VERSIONS", [][]byte{bytes.Repeat(append([]byte{0, 0, 128, 0xff, 0xff}, make([]byte, 0xffff)...), 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := connectTo(t, bytes.Join(c.script, nil), 1<<14)
			refused(t, l, err, c.want)
		})
	}
}

func TestHostileResponderCerts(t *testing.T) {
	a := get(t, relayA)
	cases := badCerts(t, a.responder, cell.CertEdLink, cert.SigningVTLS, cert.KeySHA256OfX509, a.leafSum)
	link := cert.Ed25519{Type: cert.SigningVTLS, Expires: time.Now().Add(time.Hour), KeyType: cert.KeySHA256OfX509, Key: get(t, relayB).leafSum}
	cases["another TLS certificate"] = badCert{with(a.certs(a.responder), cell.CertEdLink, link.Encode(a.signing.Sign)), "type 5 (signing key to TLS certificate): it is for another TLS certificate"}
	cases["an initiator's chain"] = badCert{a.certs(a.initiator), "no certificate of type 5"}
	cases["another relay's chain"] = badCert{get(t, relayB).certs(get(t, relayB).responder), "it is for another TLS certificate"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			script := bytes.Join([][]byte{versionsCell(), certsCell(c.certs), challengeCell(), netinfoCell()}, nil)
			l, err := connectTo(t, script, 1<<14)
			refused(t, l, err, c.want)
			if want := strings.Contains(name, "expired"); want != errors.Is(err, cert.ErrExpired) || want && !strings.Contains(err.Error(), "the peer's clock minus this one is") {
				t.Errorf("expiry is not told from other faults: %v", err)
			}
		})
	}
}

// hostileInitiator does TLS and reads the responder's cells as an honest
// initiator, and then sends what script returns.
func hostileInitiator(t *testing.T, cfg *LinkConfig, first []byte, script func(c *connecting, peer *peerCerts, state *tls.ConnectionState) [][]byte) (*Link, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.Close()
		conn := tls.Client(a, cfg.relayTLS("www.example.com"))
		c := &connecting{cfg: cfg, secured: secured{conn: conn}, cells: newHandshakeCells(conn, a), start: time.Now()}
		if c.cells.write(first, "VERSIONS") != nil || c.cells.negotiate() != nil || c.read() != nil {
			return
		}
		state := conn.ConnectionState()
		peer, err := checkResponder(c.certs, keys(t).leafSum, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		conn.Write(bytes.Join(script(c, peer, &state), nil))
		<-ctx.Done()
	}()
	l, err := Accept(ctx, b, &LinkConfig{Identity: keys(t)})
	cancel()
	b.Close()
	<-done
	return l, err
}

// authCells makes CERTS and AUTHENTICATE cells after change of what is signed;
// between is sent (and hashed) between them.
func authCells(t *testing.T, c *connecting, peer *peerCerts, state *tls.ConnectionState, between []byte, change func(*authFields)) (certs, auth []byte) {
	id := get(t, relayB)
	certs = cell.AppendVar(nil, 0, cell.CmdCerts, id.initiator)
	c.cells.sent.Write(certs)
	c.cells.sent.Write(between)
	f := authFields{
		initiatorRSA: id.rsaSHA256, responderRSA: peer.rsaSHA256, initiatorEd: id.ID.Ed, responderEd: peer.id.Ed,
		responderLog: c.responderLog, initiatorLog: digest(c.cells.sent), tlsCert: keys(t).leafSum,
	}
	change(&f)
	m, err := f.authenticate(rand.Reader, state, id.auth)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	return certs, varCell(cell.CmdAuthenticate, m.Append(nil)...)
}

func TestHostileInitiatorAuth(t *testing.T) {
	same := func(*authFields) {}
	for name, c := range map[string]struct {
		want   string
		change func(*authFields)
	}{
		"initiator's RSA":     {"initiator's RSA identity does not match", func(f *authFields) { f.initiatorRSA[0] ^= 1 }},
		"responder's RSA":     {"responder's RSA identity does not match", func(f *authFields) { f.responderRSA[0] ^= 1 }},
		"initiator's Ed25519": {"initiator's Ed25519 identity does not match", func(f *authFields) { f.initiatorEd[0] ^= 1 }},
		"responder's Ed25519": {"responder's Ed25519 identity does not match", func(f *authFields) { f.responderEd[0] ^= 1 }},
		"responder's log":     {"responder's log does not match", func(f *authFields) { f.responderLog[0] ^= 1 }},
		"initiator's log":     {"initiator's log does not match", func(f *authFields) { f.initiatorLog[31] ^= 1 }},
		"TLS certificate":     {"TLS certificate does not match", func(f *authFields) { f.tlsCert[0] ^= 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := hostileInitiator(t, &LinkConfig{}, versionsCell(), func(h *connecting, p *peerCerts, s *tls.ConnectionState) [][]byte {
				certs, auth := authCells(t, h, p, s, nil, c.change)
				return [][]byte{certs, auth, netinfoCell()}
			})
			refused(t, l, err, "AUTHENTICATE: the "+c.want)
		})
	}
	for name, c := range map[string]struct {
		want string
		edit func(auth []byte) []byte
	}{
		"type":            {"the type does not match", func(b []byte) []byte { b[4] = 'a'; return b }},
		"keying material": {"the TLS keying material does not match", func(b []byte) []byte { b[4+232] ^= 1; return b }},
		"random bytes":    {"the signature is wrong", func(b []byte) []byte { b[4+authRandom] ^= 1; return b }},
		"signature":       {"the signature is wrong", func(b []byte) []byte { b[4+authSigned] ^= 1; return b }},
		"method 1":        {"method 1 was not offered", func(b []byte) []byte { b[1] = 1; return b }},
		"short":           {"body of 351 bytes, not 352", func(b []byte) []byte { binary.BigEndian.PutUint16(b[2:], authBodySize-1); return b }},
		"truncated":       {"offset 4: 352 bytes wanted, 6 left", func(b []byte) []byte { return b[:10] }},
		"empty":           {"offset 0: 2 bytes wanted, 0 left", func(b []byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := hostileInitiator(t, &LinkConfig{}, versionsCell(), func(h *connecting, p *peerCerts, s *tls.ConnectionState) [][]byte {
				certs, auth := authCells(t, h, p, s, nil, same)
				return [][]byte{certs, varCell(cell.CmdAuthenticate, c.edit(auth[cell.VarHeaderLen:])...), netinfoCell()}
			})
			refused(t, l, err, "AUTHENTICATE: "+c.want)
		})
	}
}

// TestInitiatorPadding: padding is part of what AUTHENTICATE covers.
func TestInitiatorPadding(t *testing.T) {
	first := append(bytes.Clone(earlyPadding), versionsCell()...)
	l, err := hostileInitiator(t, &LinkConfig{}, first, func(h *connecting, p *peerCerts, s *tls.ConnectionState) [][]byte {
		h.cells.sent.Write(latePadding)
		certs, auth := authCells(t, h, p, s, latePadding, func(*authFields) {})
		return [][]byte{latePadding, certs, latePadding, auth, latePadding, netinfoCell()}
	})
	if err != nil || !l.PeerAuthenticated || l.Peer != otherKeys(t).ID {
		t.Errorf("%+v %v", l, err)
	}
	// CERTS without AUTHENTICATE prove nothing, as with C tor.
	l, err = hostileInitiator(t, &LinkConfig{}, versionsCell(), func(h *connecting, p *peerCerts, s *tls.ConnectionState) [][]byte {
		return [][]byte{cell.AppendVar(nil, 0, cell.CmdCerts, otherKeys(t).initiator), netinfoCell()}
	})
	if err != nil || l.PeerAuthenticated || !l.Peer.RSA.IsZero() || !l.Peer.Ed.IsZero() {
		t.Errorf("%+v %v", l, err)
	}
}

func TestHostileInitiatorCells(t *testing.T) {
	n := netinfoCell()
	for name, c := range map[string]struct {
		want   string
		script func(certs, auth []byte) [][]byte
	}{
		"AUTHENTICATE first":   {"AUTHENTICATE while waiting for CERTS or NETINFO", func(c, a []byte) [][]byte { return [][]byte{a, n} }},
		"CERTS again":          {"CERTS while waiting for AUTHENTICATE or NETINFO", func(c, a []byte) [][]byte { return [][]byte{c, c} }},
		"AUTHENTICATE again":   {"AUTHENTICATE while waiting for NETINFO", func(c, a []byte) [][]byte { return [][]byte{c, a, a} }},
		"CERTS late":           {"CERTS while waiting for NETINFO", func(c, a []byte) [][]byte { return [][]byte{c, a, c} }},
		"AUTH_CHALLENGE":       {"AUTH_CHALLENGE while waiting for CERTS or NETINFO", func(c, a []byte) [][]byte { return [][]byte{challengeCell()} }},
		"CREATE2":              {"CREATE2 while waiting for CERTS or NETINFO", func(c, a []byte) [][]byte { return [][]byte{cell.AppendFixed(nil, 0, cell.CmdCreate2, nil)} }},
		"CREATE_FAST, circuit": {"CREATE_FAST: circuit ID 9", func(c, a []byte) [][]byte { return [][]byte{circID(cell.AppendFixed(nil, 0, cell.CmdCreateFast, nil))} }},
		"VERSIONS again":       {"VERSIONS while waiting for CERTS or NETINFO", func(c, a []byte) [][]byte { return [][]byte{varCell(cell.CmdVersions, 0, 4)} }},
		"endless padding":      {"more than 49152 bytes while waiting for CERTS or NETINFO", func(c, a []byte) [][]byte { return [][]byte{bytes.Repeat(latePadding, 250)} }},
		"bad NETINFO": {"NETINFO: offset", func(c, a []byte) [][]byte {
			return [][]byte{cell.AppendFixed(nil, 0, cell.CmdNetinfo, append([]byte{0, 0, 0, 0, 4, 4, 1, 2, 3, 4, 9}, bytes.Repeat([]byte{255}, 498)...))}
		}},
		"NETINFO of zeros": {"NETINFO: an address of the unknown type 0", func(c, a []byte) [][]byte {
			return [][]byte{cell.AppendFixed(nil, 0, cell.CmdNetinfo, nil)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := hostileInitiator(t, &LinkConfig{}, versionsCell(), func(h *connecting, p *peerCerts, s *tls.ConnectionState) [][]byte {
				return c.script(authCells(t, h, p, s, nil, func(*authFields) {}))
			})
			refused(t, l, err, c.want)
		})
	}
	l, err := hostileInitiator(t, &LinkConfig{}, cell.Versions{3}.AppendCell(nil), nil)
	refused(t, l, err, "no link protocol in common: the peer has [3]")
	l, err = hostileInitiator(t, &LinkConfig{}, append([]byte{0, 0, 8}, make([]byte, cell.PayloadLen)...), nil)
	refused(t, l, err, "NETINFO before VERSIONS")
}

func TestHostileInitiatorCerts(t *testing.T) {
	a := get(t, relayA)
	cases := badCerts(t, a.initiator, cell.CertEdAuth, cert.SigningVLinkAuth, cert.KeyEd25519, cert.IdentityOf(a.auth))
	cases["a responder's chain"] = badCert{a.certs(a.responder), "no certificate of type 6"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, err := hostileInitiator(t, &LinkConfig{}, versionsCell(), func(*connecting, *peerCerts, *tls.ConnectionState) [][]byte {
				return [][]byte{certsCell(c.certs), netinfoCell()}
			})
			refused(t, l, err, c.want)
		})
	}
}
