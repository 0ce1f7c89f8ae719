package fte

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Key is the classic protocol's shared key, K1 (encryption) || K2 (authentication).
// Both directions use the same key.
type Key [32]byte

// DefaultKey is fteproxy's built-in key. It is public, so it hides nothing from anyone
// that knows fteproxy.
var DefaultKey = Key{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ParseKey reads 64 hexadecimal digits. White space before and after them is allowed.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != len(k) {
		return k, fault.New(fault.Config, "a classic key is %d hexadecimal digits", 2*len(k))
	}
	return Key(b), nil
}

// String hides the key, so that no log contains it by accident.
func (Key) String() string { return "[classic key]" }

// Hex returns the key as 64 hexadecimal digits, which ParseKey reads.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// The length of the negotiation record, and of the zeros with which it begins.
const (
	negotiateLen  = 64
	negotiateZero = 32
)

// Classic is fteproxy's protocol (0.3.2; with the definitions of 0.2 and their order,
// 0.2.19). It authenticates with a shared key, has no forward secrecy, and formats
// only the first bytes of each cell. An attacker can record a stream and replay it to
// the server. Use Classic only to talk to fteproxy.
type Classic struct {
	// Key is shared by both sides; the zero value is DefaultKey.
	Key Key
	// Definitions are the formats; nil is the latest release.
	Definitions *Definitions
	// Format is the format that a client uses and that a server tries first, without
	// its direction; "" is DefaultFormat.
	Format string
	// MaxCell is the longest plaintext per cell to send; 0 means as much as one write
	// holds (about 64 KiB). 0.2.19 sends 32 KiB.
	MaxCell int
	// Rand is the source of salts and padding; nil is crypto/rand.
	Rand io.Reader
}

// normal fills in the defaults and builds the tables of the named format.
func (p Classic) normal() (*classicProto, error) {
	if p.Key == (Key{}) {
		p.Key = DefaultKey
	}
	if p.Definitions == nil {
		d, err := Release("", false)
		if err != nil {
			return nil, err
		}
		p.Definitions = d
	}
	if p.Format == "" {
		p.Format = DefaultFormat
	}
	if p.MaxCell < 0 || p.MaxCell > MaxClassicCell {
		return nil, fault.New(fault.Config, "a cell of %d bytes is not between 1 and %d", p.MaxCell, MaxClassicCell)
	}
	if p.MaxCell == 0 {
		p.MaxCell = MaxClassicCell
	}
	if p.Rand == nil {
		p.Rand = rand.Reader
	}
	if len(p.Definitions.Release())+len(p.Format) > negotiateLen-negotiateZero {
		return nil, fault.New(fault.Config, "the format's name %q is too long to negotiate", p.Format)
	}
	req, resp, err := p.Definitions.Pair(p.Format)
	if err != nil {
		return nil, err
	}
	for _, f := range []*Format{req, resp} {
		if _, err := f.Words(); err != nil {
			return nil, err
		}
	}
	return &classicProto{cfg: p, request: req, response: resp}, nil
}

// classicProto is a Classic whose defaults are filled in.
type classicProto struct {
	cfg               Classic
	request, response *Format // of cfg.Format
}

// Dialer returns the Transport for client connections.
func (p Classic) Dialer() (Transport, error) {
	n, err := p.normal()
	if err != nil {
		return nil, err
	}
	return classicClient{n}, nil
}

// Acceptor returns the Transport for server connections.
func (p Classic) Acceptor() (Transport, error) {
	n, err := p.normal()
	if err != nil {
		return nil, err
	}
	return newClassicServer(n)
}

// use sets up a connection that sends in one format and receives in another.
func (p *classicProto) use(c *Conn, send, receive *Format) error {
	out, err := send.Words()
	if err != nil {
		return err
	}
	in, err := receive.Words()
	if err != nil {
		return err
	}
	s, err := newClassicSealer(&p.cfg.Key, out, p.cfg.Rand, p.cfg.MaxCell)
	if err != nil {
		return err
	}
	o, err := newClassicOpener(newClassicAE(&p.cfg.Key), in)
	if err != nil {
		return err
	}
	c.seal, c.open = s, o
	return nil
}

type classicClient struct{ p *classicProto }

// Wrap returns a client connection over raw.
func (t classicClient) Wrap(raw net.Conn) *Conn { return newConn(raw, t) }

// handshake sends the negotiation cell. The server does not answer it.
func (t classicClient) handshake(c *Conn) error {
	if err := t.p.use(c, t.p.request, t.p.response); err != nil {
		return err
	}
	head, tail, _ := c.seal.room()
	f := getFrame(c.mem, head+negotiateLen+tail)
	defer f.put()
	b := f.B[head : head+negotiateLen]
	clear(b)
	name := t.p.cfg.Definitions.Release() + t.p.cfg.Format
	copy(b[len(b)-len(name):], name)
	wire, err := c.seal.seal(f.B, head, negotiateLen)
	if err != nil {
		return err
	}
	if _, err := c.raw.Write(wire); err != nil {
		return fault.New(fault.Network, "sending the negotiation: %w", err)
	}
	return nil
}

type classicServer struct {
	p       *classicProto
	formats []*Format // of requests, the configured format first
	longest int       // bytes of the longest negotiation cell
}

func newClassicServer(p *classicProto) (*classicServer, error) {
	s := &classicServer{p: p, formats: []*Format{p.request}}
	for _, name := range p.cfg.Definitions.Names() {
		req, resp, err := p.cfg.Definitions.Pair(name)
		if err != nil {
			return nil, err
		}
		if req == p.request {
			continue
		}
		if p.runs(req) && p.runs(resp) {
			s.formats = append(s.formats, req)
		} else if p.cfg.Definitions.full() {
			return nil, errTables
		}
	}
	for _, f := range s.formats {
		s.longest = max(s.longest, f.Slice+negotiateLen+classicExpansion)
	}
	return s, nil
}

// runs reports whether the protocol can use a format. The words of some formats hold
// too few bytes.
func (p *classicProto) runs(f *Format) bool {
	w, err := f.Words()
	return err == nil && w.Bytes() > classicHeader
}

// Wrap returns a server connection over raw.
func (s *classicServer) Wrap(raw net.Conn) *Conn { return newConn(raw, s) }

// trial is the attempt to read a client's first bytes in one format.
type trial struct {
	o   *classicOpener // nil until the first bytes
	out bool           // the bytes are not in this format
}

// handshake reads until the bytes are a negotiation in one format, or cannot be one in
// any format. It tries each format separately, so that a failure in one does not rule
// out another whose language contains the first. It reads no more bytes than the
// longest negotiation has: a peer that knows the key, which may be the public one,
// could announce a record of any length.
func (s *classicServer) handshake(c *Conn) error {
	trials := make([]trial, len(s.formats))
	ae := newClassicAE(&s.p.cfg.Key) // shared by all trials
	var scratch []byte
	for {
		b := c.in.bytes()
		live := false
		for i, f := range s.formats {
			t := &trials[i]
			if t.out {
				continue
			}
			if len(b) < f.Slice {
				live = true
				continue
			}
			if t.o == nil {
				w, err := f.Words()
				if err != nil {
					return err
				}
				if t.o, err = newClassicOpener(ae, w); err != nil {
					return err
				}
			}
			most := f.Slice + negotiateLen + classicExpansion
			scratch = append(scratch[:0], b[:min(len(b), most)]...) // open decrypts in place
			plain, used, need, err := t.o.open(scratch)
			switch {
			case err == nil && used == 0 && need <= most:
				live = true
			case err == nil && used > 0 && s.named(plain, f):
				_, resp, err := s.p.cfg.Definitions.Pair(f.base())
				if err != nil {
					return err
				}
				c.in.take(used)
				return s.p.use(c, resp, f)
			default:
				*t = trial{out: true}
			}
		}
		if !live {
			return fault.New(fault.Protocol, "the peer's first bytes are not a negotiation in any format")
		}
		if err := c.fill(s.longest); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fault.New(fault.Network, "reading the negotiation: %w", err)
		}
	}
}

// named reports whether a record is a negotiation that names the format in which it
// arrived.
func (s *classicServer) named(rec []byte, f *Format) bool {
	if len(rec) != negotiateLen {
		return false
	}
	for _, b := range rec[:negotiateZero] {
		if b != 0 {
			return false
		}
	}
	// Like fteproxy, a server uses its own release whatever the peer names.
	name := bytes.TrimLeft(rec, "\x00")
	return len(name) > 8 && string(name[8:]) == f.base()
}
