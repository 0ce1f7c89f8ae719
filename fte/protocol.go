package fte

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Mode says how much of the wire is in the language.
type Mode uint8

const (
	// Strict puts every byte into words.
	Strict Mode = iota
	// Bulk puts the handshake and the start of each record into words, and
	// leaves the rest of a record as ciphertext: fast, and easy to tell from
	// the real thing for who looks beyond the first bytes.
	Bulk
)

// String returns the mode's name.
func (m Mode) String() string {
	if m == Bulk {
		return "bulk"
	}
	return "strict"
}

// ParseMode reads "strict" or "bulk".
func ParseMode(s string) (Mode, error) {
	switch s {
	case "strict", "":
		return Strict, nil
	case "bulk":
		return Bulk, nil
	}
	return 0, fault.New(fault.Config, "mode %q is neither strict nor bulk", s)
}

// Protocol is Chive's own protocol (docs/spec/fte.md). Both sides need the same
// formats; everything else a client asks for in its hello.
type Protocol struct {
	// Request and Response are the two directions' formats.
	Request, Response *Format
	// Cert is the server's certificate, for a client.
	Cert *Cert
	// Keys are the server's keys, the current one first; hellos under any of
	// them are accepted.
	Keys []*ServerKey
	// Mode is the client's choice.
	Mode Mode
	// Hybrid has the client add ML-KEM-768 to the key exchange.
	Hybrid bool
	// ChaCha has the client choose ChaCha20-Poly1305 for records, for machines
	// without AES instructions.
	ChaCha bool
	// Shape changes lengths and times of this side's records.
	Shape Shape
	// HelloPad bounds the random padding of this side's hello, in bytes; 0 is 512.
	HelloPad int
	// Rand is the source of keys and padding; nil is crypto/rand. (ML-KEM's keys
	// always come from the latter.)
	Rand io.Reader
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// normal fills in the defaults and checks.
func (p Protocol) normal() (*chiveProto, error) {
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
	n := &chiveProto{Protocol: p}
	for _, d := range []struct {
		f *Format
		w *wordCoder
	}{{p.Request, &n.request}, {p.Response, &n.response}} {
		w, err := d.f.Words()
		if err != nil {
			return nil, err
		}
		if w.Bytes() == 0 {
			return nil, fault.New(fault.Config, "format %q holds less than a byte a word", d.f.Name)
		}
		*d.w = w
	}
	return n, nil
}

// Dialer returns what sets up client connections.
func (p Protocol) Dialer() (Transport, error) {
	if p.Cert == nil {
		return nil, fault.New(fault.Config, "a client needs the server's certificate")
	}
	n, err := p.normal()
	if err != nil {
		return nil, err
	}
	return chiveClient{n}, nil
}

// Acceptor returns what sets up server connections. It holds the memory of
// hellos that were seen, so one must serve all of a server's listeners.
func (p Protocol) Acceptor() (Transport, error) {
	if len(p.Keys) == 0 {
		return nil, fault.New(fault.Config, "a server needs a key; chive fte keygen makes one")
	}
	n, err := p.normal()
	if err != nil {
		return nil, err
	}
	return &chiveServer{chiveProto: n, seen: newReplayCache(maxSeen, n.Now())}, nil
}

// chiveProto is a Protocol whose defaults are filled in.
type chiveProto struct {
	Protocol
	request, response wordCoder
}

// carrier is a sealer that can send a record without data.
type carrier interface {
	sealer
	cover(buf []byte) ([]byte, error)
}

// use sets the connection up for records.
func (p *chiveProto) use(c *Conn, s secrets, send, receive wordCoder, sendKey, receiveKey [32]byte) (seal carrier) {
	rs := recordSealer{keys: newRecordKeys(sendKey, s.flags), rand: p.Rand, shape: p.Shape}
	ro := recordOpener{keys: newRecordKeys(receiveKey, s.flags)}
	if s.flags&flagBulk != 0 {
		seal = &bulkSealer{recordSealer: rs, word: send, x: make([]byte, send.Bytes())}
		c.open = &bulkOpener{rec: ro, word: receive, x: make([]byte, receive.Bytes())}
	} else {
		seal = &strictSealer{recordSealer: rs, word: send, x: make([]byte, send.Bytes())}
		c.open = &strictOpener{rec: ro, word: receive}
	}
	c.seal, c.delay = seal, p.Shape.Delay
	return seal
}

// helloPad draws the length of a hello's padding.
func (p *chiveProto) helloPad() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(p.Rand, b[:]); err != nil {
		return 0, fault.New(fault.Local, "drawing padding: %w", err)
	}
	return int(binary.BigEndian.Uint32(b[:]) % uint32(p.HelloPad+1)), nil
}

// sendHello writes a hello as words.
func (p *chiveProto) sendHello(c *Conn, hello []byte, w wordCoder) error {
	f := getFrame(words(w, len(hello)) * w.Len())
	defer f.put()
	wire, err := encodeWords(f.B[:0], hello, w, p.Rand, make([]byte, w.Bytes()))
	if err != nil {
		return err
	}
	if _, err = c.raw.Write(wire); err != nil {
		return fault.New(fault.Network, "sending the hello: %w", err)
	}
	return nil
}

// helloReader decodes a hello's words. They stay in c.in until take, so that
// a decoy can be given all that a stranger sent.
type helloReader struct {
	c    *Conn
	word wordCoder
	bits []byte
	used int // of c.in
}

// want returns the first n bytes of the hello.
func (h *helloReader) want(n int) ([]byte, error) {
	l := h.word.Len()
	for len(h.bits) < n {
		if b := h.c.in.bytes(); len(b) >= h.used+l {
			at := len(h.bits)
			h.bits = append(h.bits, make([]byte, h.word.Bytes())...)
			if err := h.word.Rank(h.bits[at:], b[h.used:h.used+l]); err != nil {
				return nil, fault.New(fault.Protocol, "the peer's first bytes aren't in the format: %w", err)
			}
			h.used += l
			continue
		}
		if err := h.c.fill(h.used + l); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fault.New(fault.Network, "reading the peer's hello: %w", err)
		}
	}
	return h.bits[:n], nil
}

type chiveClient struct{ *chiveProto }

// Wrap returns a client connection over raw.
func (p chiveClient) Wrap(raw net.Conn) *Conn { return newConn(raw, p) }

func (p chiveClient) handshake(c *Conn) error {
	var flags byte
	if p.Hybrid {
		flags |= flagHybrid
	}
	if p.ChaCha {
		flags |= flagChaCha
	}
	if p.Mode == Bulk {
		flags |= flagBulk
	}
	pad, err := p.helloPad()
	if err != nil {
		return err
	}
	kex, hello, err := newClientKex(p.Rand, p.Cert, flags, pad, p.Now())
	if err != nil {
		return err
	}
	if err := p.sendHello(c, hello, p.request); err != nil {
		return err
	}
	h := helloReader{c: c, word: p.response}
	b, err := h.want(serverHelloHead)
	if err != nil {
		return err
	}
	n, err := kex.head(b)
	if err != nil {
		return err
	}
	if b, err = h.want(serverHelloHead + n); err != nil {
		return err
	}
	s, err := kex.finish(b[serverHelloHead:])
	if err != nil {
		return err
	}
	c.in.take(h.used)
	seal := p.use(c, s, p.request, p.response, s.toServer, s.toClient)
	// The first record proves that the hello isn't a replay.
	f := getFrame(wireFrame)
	defer f.put()
	wire, err := seal.cover(f.B)
	if err != nil {
		return err
	}
	_, err = c.raw.Write(wire)
	c.seal.release()
	return err
}

type chiveServer struct {
	*chiveProto
	seen *replayCache
}

// Wrap returns a server connection over raw.
func (p *chiveServer) Wrap(raw net.Conn) *Conn { return newConn(raw, p) }

func (p *chiveServer) handshake(c *Conn) error {
	h := helloReader{c: c, word: p.request}
	b, err := h.want(clientHelloHead)
	if err != nil {
		return err
	}
	kex, n, err := newServerKex(p.Keys, b)
	if err != nil {
		return err
	}
	if b, err = h.want(clientHelloHead + n); err != nil {
		return err
	}
	pad, err := p.helloPad()
	if err != nil {
		return err
	}
	hello, s, err := kex.answer(p.Rand, b[clientHelloHead:], pad)
	if err != nil {
		return err
	}
	if !p.seen.fresh(kex.id, kex.stamp, p.Now()) {
		return errStranger
	}
	c.in.take(h.used)
	if err := p.sendHello(c, hello, p.response); err != nil {
		return err
	}
	p.use(c, s, p.response, p.request, s.toClient, s.toServer)
	return p.confirmed(c)
}

// confirmed waits for the client's first record, which must be empty.
func (p *chiveServer) confirmed(c *Conn) error {
	c.need = 0
	for {
		if b := c.in.bytes(); len(b) >= c.need {
			plain, used, need, err := c.open.open(b)
			if err != nil {
				return err
			}
			if len(plain) > 0 {
				return fault.New(fault.Protocol, "the client's first record holds data")
			}
			c.in.take(used)
			if need == 0 {
				return nil
			}
			c.need = need
			continue
		}
		if err := c.fill(c.need); err != nil {
			return fault.New(fault.Network, "waiting for the client's first record: %w", err)
		}
	}
}
