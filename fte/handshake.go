package fte

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/chivenet/chive/internal/fault"
)

// helloPad chooses the length of a hello's padding at random.
func (p *chiveProto) helloPad() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(p.Rand, b[:]); err != nil {
		return 0, fault.New(fault.Local, "reading randomness for padding: %w", err)
	}
	return int(binary.BigEndian.Uint32(b[:]) % uint32(p.HelloPad+1)), nil
}

// sendHello writes a hello whose head has the given length.
func (p *chiveProto) sendHello(c *Conn, hello []byte, head int, w textWriter) error {
	f := getFrame(c.mem, min(w.takes(len(hello)), largeFrame))
	defer f.put()
	wire, err := w.append(f.B[:0], hello[:head], hello[head:])
	if err != nil {
		return err
	}
	if _, err = c.raw.Write(wire); err != nil {
		return fault.New(fault.Network, "sending the hello: %w", err)
	}
	return nil
}

// helloReader decodes a hello. The text stays in c.in until the hello is
// accepted, so that a decoy can receive all that the peer sent.
type helloReader struct {
	c    *Conn
	text textReader
	used int // bytes of c.in that were read
}

// want returns the next n bytes of the hello.
func (h *helloReader) want(n int) ([]byte, error) {
	b := make([]byte, n)
	h.text.begin(b)
	for {
		k, done, err := h.text.write(h.c.in.bytes()[h.used:])
		h.used += k
		if err != nil {
			return nil, fault.New(fault.Protocol, "the peer's first bytes aren't in the format: %w", err)
		}
		if done {
			return b, nil
		}
		if h.used+h.text.least() > maxHelloText {
			return nil, fault.New(fault.Protocol, "the peer's hello doesn't end within %d bytes of text", maxHelloText)
		}
		if err := h.c.fill(h.used + h.text.least()); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fault.New(fault.Network, "reading the peer's hello: %w", err)
		}
	}
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
	pad, err := p.helloPad()
	if err != nil {
		return err
	}
	kex, hello, err := newClientKex(p.Rand, p.Cert, p.prologue(), flags, pad, p.Now())
	if err != nil {
		return err
	}
	out, err := p.writer(p.request)
	if err != nil {
		return err
	}
	in, err := p.reader(p.response)
	if err != nil {
		return err
	}
	if err := p.sendHello(c, hello, clientHelloHead, out); err != nil {
		return err
	}
	h := helloReader{c: c, text: in}
	b, err := h.want(serverHelloHead)
	if err != nil {
		return err
	}
	n, err := kex.head(b)
	if err != nil {
		return err
	}
	if b, err = h.want(n); err != nil {
		return err
	}
	s, err := kex.finish(b)
	if err != nil {
		return err
	}
	in.end()
	c.in.take(h.used)
	seal := p.use(c, s, out, in, s.toServer, s.toClient)
	// The first record proves that the hello isn't a replay.
	f := getFrame(c.mem, wireFrame)
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
	in, err := p.reader(p.request)
	if err != nil {
		return err
	}
	out, err := p.writer(p.response)
	if err != nil {
		return err
	}
	h := helloReader{c: c, text: in}
	b, err := h.want(clientHelloHead)
	if err != nil {
		return err
	}
	kex, n, err := newServerKex(p.Keys, p.prologue(), b)
	if err != nil {
		return err
	}
	if b, err = h.want(n); err != nil {
		return err
	}
	if err := kex.read(b); err != nil {
		return err
	}
	if !p.seen.fresh(kex.id, kex.stamp, p.Now()) {
		return errStranger
	}
	pad, err := p.helloPad()
	if err != nil {
		return err
	}
	hello, s, err := kex.answer(p.Rand, pad)
	if err != nil {
		return err
	}
	in.end()
	c.in.take(h.used)
	if c.spoke = true; !c.patience.IsZero() {
		c.raw.SetDeadline(c.patience)
	}
	if err := p.sendHello(c, hello, serverHelloHead, out); err != nil {
		return err
	}
	p.use(c, s, out, in, s.toClient, s.toServer)
	return p.confirmed(c)
}

// confirmed waits for the client's first record. That record must be empty.
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
