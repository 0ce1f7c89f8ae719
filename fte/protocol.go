package fte

import (
	"crypto/mlkem"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Mode says how much of the wire bytes is text of the language.
type Mode uint8

const (
	// Strict encodes everything that one side sends as one endless word of the
	// language, whose symbols are near-uniform.
	Strict Mode = iota
	// Cells encodes everything as words of the format's fixed length, one after
	// another. The first symbols of such a word are not uniformly distributed.
	Cells
	// Bulk encodes the handshake and the start of each record as words, and sends the
	// rest of a record as ciphertext. This is fast, but an observer that looks beyond
	// the first bytes easily recognises it.
	Bulk
	modes
)

// String returns the mode's name.
func (m Mode) String() string { return [...]string{"strict", "cells", "bulk"}[m] }

// ParseMode reads "strict", "cells" or "bulk"; "" is strict.
func ParseMode(s string) (Mode, error) {
	for m := range modes {
		if s == m.String() {
			return m, nil
		}
	}
	if s == "" {
		return Strict, nil
	}
	return 0, fault.New(fault.Config, "mode %q is not strict, cells or bulk", s)
}

// Protocol is Chive's own protocol (docs/spec/fte.md). Both sides need the same
// formats and the same mode; the client's hello chooses everything else.
type Protocol struct {
	// Request and Response are the formats of the two directions.
	Request, Response *Format
	// Cert is the server's certificate, for a client.
	Cert *Cert
	// Keys are the server's keys, the current one first; hellos under any of
	// them are accepted.
	Keys []*ServerKey
	// Mode is how much of the wire is in the language.
	Mode Mode
	// Hybrid makes the client add ML-KEM-768 to the key exchange.
	Hybrid bool
	// ChaCha makes the client choose ChaCha20-Poly1305 for records, for machines
	// without AES instructions.
	ChaCha bool
	// Shape changes the lengths and times of the records that this side sends.
	Shape Shape
	// HelloPad bounds the random padding of this side's hello, in bytes; 0 is 512.
	HelloPad int
	// Rand is the source of keys and padding; nil is crypto/rand. ML-KEM keys always
	// come from crypto/rand.
	Rand io.Reader
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// normal fills in the defaults and checks. This side sends in a format, and says hello with
// up to n bytes and its padding.
func (p Protocol) normal(send *Format, n int) (*chiveProto, error) {
	if p.Rand == nil {
		p.Rand = rand.Reader
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.HelloPad == 0 {
		p.HelloPad = 512
	}
	if p.HelloPad < 0 || p.HelloPad > 2048 {
		return nil, fault.New(fault.Config, "a hello's padding is between 0 and 2048 bytes")
	}
	if err := p.Shape.check(); err != nil {
		return nil, err
	}
	if p.Request == nil || p.Response == nil {
		return nil, fault.New(fault.Config, "both directions need a format")
	}
	if p.Mode >= modes {
		return nil, fault.New(fault.Config, "mode %d is unknown", p.Mode)
	}
	out := &chiveProto{Protocol: p, request: p.Request, response: p.Response}
	for _, f := range []*Format{p.Request, p.Response} {
		w, err := out.writer(f)
		if err != nil {
			return nil, err
		}
		if f != send {
			continue
		}
		if w.takes(n+p.HelloPad) > maxHelloText || p.Mode != Bulk && w.holds(largeFrame) <= recordHead+recordTag+p.Shape.most() {
			return nil, fault.New(fault.Config, "format %q: its words hold too few bytes for a hello, or for a record with the padding of Shape", f.Name)
		}
	}
	return out, nil
}

// Dialer returns the Transport for client connections.
func (p Protocol) Dialer() (Transport, error) {
	if p.Cert == nil {
		return nil, fault.New(fault.Config, "a client needs the server's certificate")
	}
	hello := clientHelloHead + kexTag
	if p.Hybrid {
		hello += mlkem.EncapsulationKeySize768
	}
	n, err := p.normal(p.Request, hello)
	if err != nil {
		return nil, err
	}
	return chiveClient{n}, nil
}

// Acceptor returns the Transport for server connections. It remembers the hellos that
// it has seen, so all listeners of a server must share one.
func (p Protocol) Acceptor() (Transport, error) {
	if len(p.Keys) == 0 {
		return nil, fault.New(fault.Config, "a server needs a key; chive fte keygen makes one")
	}
	n, err := p.normal(p.Response, serverHelloHead+kexTag)
	if err != nil {
		return nil, err
	}
	return &chiveServer{chiveProto: n, seen: newReplayCache(maxSeen, n.Now())}, nil
}

// chiveProto is a Protocol whose defaults are filled in.
type chiveProto struct {
	Protocol
	request, response *Format
}

// prologue holds all that both sides must agree on before the first byte.
func (p *chiveProto) prologue() []byte {
	return fmt.Appendf(nil, "%s\x00%d\x00%s\x00%d\x00%s", p.Mode, p.request.Slice, p.request.Pattern, p.response.Slice, p.response.Pattern)
}

// carrier is a sealer that can send a record without data.
type carrier interface {
	sealer
	cover(buf []byte) ([]byte, error)
}

// use sets the connection up to send and receive records.
func (p *chiveProto) use(c *Conn, s secrets, out textWriter, in textReader, sendKey, receiveKey [32]byte) (seal carrier) {
	rs := recordSealer{keys: newRecordKeys(sendKey, s.flags), rand: p.Rand, shape: p.Shape}
	ro := recordOpener{keys: newRecordKeys(receiveKey, s.flags)}
	if p.Mode == Bulk {
		w, r := out.(*cellWriter).word, in.(*cellReader).word
		seal = &bulkSealer{recordSealer: rs, word: w, x: make([]byte, w.Bytes())}
		c.open = &bulkOpener{rec: ro, word: r, x: make([]byte, r.Bytes())}
	} else {
		seal = &strictSealer{recordSealer: rs, text: out, mem: c.mem}
		c.open = &strictOpener{rec: ro, text: in, mem: c.mem}
	}
	c.seal, c.delay = seal, p.Shape.Delay
	return seal
}
