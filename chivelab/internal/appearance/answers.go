package appearance

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// probe is one question that anybody can put to the ORPort of a relay or a bridge.
type probe struct {
	name, what string
	ask        func(ctx context.Context, addr string) (string, error)
	known      string // why Chive's answer differs; empty: it does not
}

// patienceKey is how long a probe waits for an answer until it calls the other end silent.
type patienceKey struct{}

// probePatience is how long it waits at first.
const probePatience = 2 * time.Second

func patience(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		return d
	}
	return probePatience
}

// probes are what is asked. An answer says nothing that differs between two starts of one program.
func probes() []probe {
	hello := func(of func(*tls.Config)) func(context.Context, string) (string, error) {
		return func(ctx context.Context, addr string) (string, error) { return answerToHello(ctx, addr, of) }
	}
	clear := func(b []byte) func(context.Context, string) (string, error) {
		return func(ctx context.Context, addr string) (string, error) { return answerTo(ctx, addr, b) }
	}
	const library = "Go's library has no choice of it"
	return []probe{
		{"tls", "a ClientHello of TLS 1.3", hello(func(*tls.Config) {}), library},
		{"tls-1.2", "a ClientHello of TLS 1.2 alone", hello(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "links are of TLS 1.3"},
		{"tls-1.1", "a ClientHello of TLS 1.1 alone", hello(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), ""},
		{"tls-p384", "a ClientHello with the group P-384 alone", hello(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }), ""},
		{"http", "HTTP in place of TLS", clear([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ""},
		{"garbage", "bytes that are no record of TLS", clear(slices.Repeat([]byte{0xff}, 100)), ""},
		{"half-hello", "the begin of a ClientHello", clear([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}), ""},
		{"silence", "nothing", clear(nil), ""},
		{"http-inside", "HTTP within TLS", inside([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ""},
		{"zeros-inside", "zeros within TLS", inside(make([]byte, 600)), ""},
		{"versions-3", "VERSIONS with link protocol 3 alone", inside(cell.Versions{3}.AppendCell(nil)), "link protocol 3 is not spoken"},
		{"versions-9", "VERSIONS with an unknown link protocol alone", inside(cell.Versions{9}.AppendCell(nil)), ""},
		{"versions", "VERSIONS", inside(cell.Versions{3, 4, 5}.AppendCell(nil)), ""},
		{"half-close", "the end of this side within TLS", insideEnd, ""},
		{"mptcp", "Multipath TCP", speaksMPTCP, ""},
		{"certificate", "the wish to see its certificate", certificateForm, ""},
	}
}

// recordsSeen notes the records that the other end sends.
type recordsSeen struct {
	net.Conn
	rest []byte
	seen []string
}

func (r *recordsSeen) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.rest = append(r.rest, p[:n]...)
	for len(r.rest) >= recordHeader {
		size := recordHeader + int(binary.BigEndian.Uint16(r.rest[3:]))
		if len(r.rest) < size {
			break
		}
		r.seen = append(r.seen, fmt.Sprintf("%d:%d", r.rest[0], size-recordHeader))
		r.rest = r.rest[size:]
	}
	return n, err
}

func dialProbe(ctx context.Context, addr string) (*net.TCPConn, error) {
	c, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp4", addr)
	if err != nil {
		return nil, fault.New(fault.Network, "a probe: %w", err)
	}
	return c.(*net.TCPConn), fault.Wrap(fault.Local, c.SetDeadline(time.Now().Add(4*patience(ctx))))
}

// dialTLS does the handshake of TLS. Who closes the TCP connection closes all.
func dialTLS(ctx context.Context, addr string) (*tls.Conn, error) {
	raw, err := dialProbe(ctx, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, helloConfig())
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fault.New(fault.Network, "a probe: %w", err)
	}
	return conn, nil
}

func helloConfig() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "www.qwertzuiop.com", MinVersion: tls.VersionTLS12}
}

// answerToHello says what a handshake chose, how long the record with EncryptedExtensions is, and which records came after the
// handshake. The group, and EncryptedExtensions that name others, depend on the version of OpenSSL, so that this is for eyes.
func answerToHello(ctx context.Context, addr string, of func(*tls.Config)) (string, error) {
	raw, err := dialProbe(ctx, addr)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	cfg := helloConfig()
	of(cfg)
	seen := &recordsSeen{Conn: raw}
	conn := tls.Client(seen, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Sprintf("%s; records %v", alertOf(err), seen.seen), nil
	}
	s := conn.ConnectionState()
	until := slices.Clone(seen.seen)
	end := readEnd(conn, patience(ctx))
	after := seen.seen[len(until):]
	out := fmt.Sprintf("%s, %s, group %v, protocol %q", tls.VersionName(s.Version), tls.CipherSuiteName(s.CipherSuite), s.CurveID, s.NegotiatedProtocol)
	if s.Version == tls.VersionTLS13 && len(until) > 2 {
		out += fmt.Sprintf("; EncryptedExtensions %s, %d records", until[2], len(until))
	}
	return out + fmt.Sprintf("; then %v, and %s", after, end), nil
}

// alertOf names why a handshake failed.
func alertOf(err error) string {
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.As(err, &alert):
		return alert.Error()
	case errors.As(err, &op) && op.Op == "remote error":
		return op.Err.Error()
	}
	return ended(err)
}

// ended names the end of a connection.
func ended(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "FIN"
	case errors.Is(err, syscall.ECONNRESET):
		return "RST"
	case errors.As(err, &network) && network.Timeout():
		return "open"
	}
	return err.Error()
}

// readEnd reads until the connection ends or is silent, and says which.
func readEnd(c net.Conn, patience time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return ended(err)
}

// answerTo says what comes of bytes that are sent in the clear.
func answerTo(ctx context.Context, addr string, b []byte) (string, error) {
	raw, err := dialProbe(ctx, addr)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	if _, err := raw.Write(b); err != nil {
		return "", fault.Wrap(fault.Network, err)
	}
	seen := &recordsSeen{Conn: raw}
	end := readEnd(seen, patience(ctx))
	return fmt.Sprintf("records %v, %d bytes besides, %s", seen.seen, len(seen.rest), end), nil
}

// inside returns a probe that sends bytes within TLS. It says how many cells of which kind come, and how it ends.
func inside(b []byte) func(context.Context, string) (string, error) {
	return func(ctx context.Context, addr string) (string, error) {
		conn, err := dialTLS(ctx, addr)
		if err != nil {
			return "", err
		}
		defer conn.NetConn().Close()
		if _, err := conn.Write(b); err != nil {
			return "", fault.Wrap(fault.Network, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience(ctx)))
		got, err := io.ReadAll(conn)
		if err == nil {
			err = io.EOF
		}
		return fmt.Sprintf("%s, %s", cellsOf(got), ended(err)), nil
	}
}

// cellsOf names the cells of an answer, with the lengths of those that are variable.
func cellsOf(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	const header = 5 // of the first cell: a circuit ID of two bytes
	if len(b) < header || len(b) < header+int(binary.BigEndian.Uint16(b[3:])) {
		return fmt.Sprintf("%d bytes", len(b))
	}
	n := header + int(binary.BigEndian.Uint16(b[3:]))
	out := []string{fmt.Sprintf("%v %x", cell.Command(b[2]), b[header:n])}
	b = b[n:]
	if len(b) > 2 && cell.Command(b[2]) == cell.CmdCerts { // link protocol 3
		return strings.Join(append(out, "cells with circuit IDs of two bytes"), ", ")
	}
	for len(b) >= cell.VarHeaderLen && len(b) >= cell.Size(b) {
		n := cell.Size(b)
		c := cell.Cmd(b).String()
		switch {
		case cell.Cmd(b) == cell.CmdCerts:
			if certs, err := cell.ParseCerts(b[cell.VarHeaderLen:n]); err == nil {
				for _, x := range certs {
					c += fmt.Sprintf(" %d", x.Type)
				}
			}
		case cell.Cmd(b).IsVariable():
			c += fmt.Sprintf(" of %d", n-cell.VarHeaderLen)
		}
		out, b = append(out, c), b[n:]
	}
	if len(b) > 0 {
		out = append(out, fmt.Sprintf("%d bytes", len(b)))
	}
	return strings.Join(out, ", ")
}

// insideEnd ends this side of a connection after the handshake of TLS.
func insideEnd(ctx context.Context, addr string) (string, error) {
	raw, err := dialProbe(ctx, addr)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	seen := &recordsSeen{Conn: raw}
	conn := tls.Client(seen, helloConfig())
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", fault.New(fault.Network, "a probe: %w", err)
	}
	if err := raw.CloseWrite(); err != nil {
		return "", fault.Wrap(fault.Network, err)
	}
	end := readEnd(seen, patience(ctx))
	last := "" // C tor's tickets come before it
	if n := len(seen.seen); n > 0 {
		last = seen.seen[n-1]
	}
	return fmt.Sprintf("last record %s, %s", last, end), nil
}

func speaksMPTCP(ctx context.Context, addr string) (string, error) {
	d := net.Dialer{KeepAlive: -1}
	d.SetMultipathTCP(true)
	c, err := d.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return "", fault.New(fault.Network, "a probe: %w", err)
	}
	defer c.Close()
	on, err := c.(*net.TCPConn).MultipathTCP()
	return fmt.Sprint(on), fault.Wrap(fault.Local, err)
}

// certificateForm says of the certificate what is no matter of chance.
func certificateForm(ctx context.Context, addr string) (string, error) {
	conn, err := dialTLS(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.NetConn().Close()
	all := conn.ConnectionState().PeerCertificates
	x := all[0]
	bits := 0
	if k, ok := x.PublicKey.(*rsa.PublicKey); ok {
		bits = k.N.BitLen()
	}
	name := func(s string) string { // without the random label
		parts := strings.Split(s, ".")
		for i, p := range parts {
			if len(p) > len("www") {
				parts[i] = "RANDOM"
			}
		}
		return strings.Join(parts, ".")
	}
	const day = 24 * time.Hour
	life := x.NotAfter.Sub(x.NotBefore)
	return fmt.Sprintf("%d certificates; version %d, %v, %v of %d bits; subject %s, issuer %s; serial of 8 bytes at most: %v; extensions %d; life of whole days (or a second less): %v, from midnight: %v",
		len(all), x.Version, x.SignatureAlgorithm, x.PublicKeyAlgorithm, bits, name(x.Subject.String()), name(x.Issuer.String()), x.SerialNumber.BitLen() <= 64,
		len(x.Extensions), life%day == 0 || life%day == day-time.Second, x.NotBefore.Truncate(day).Equal(x.NotBefore)), nil
}
