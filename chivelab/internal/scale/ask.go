package scale

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/stream"
)

// perCircuit is how many requests go over one circuit, as clients take several caches: relays close a circuit that begins
// more than 60 directory streams at once.
const perCircuit = 40

// maxAnswer bounds an answer of a directory, in bytes.
const maxAnswer = 64 << 20

// asker asks a directory, on a link of its own.
type asker struct {
	load *load
	ch   *channel.Channel
	path []linkspec.Target // the link's relay first
	each int               // requests on a circuit
	circ *circuit.Circuit
	used int
}

// newAsker opens a link to a directory.
func newAsker(ctx context.Context, to peer, from netip.Addr) (*asker, error) {
	a := &asker{load: newLoad(to), path: []linkspec.Target{to.target()}, each: perCircuit}
	var err error
	a.ch, err = a.load.link(ctx, from)
	return a, err
}

func (a *asker) close() {
	a.ch.Close(errOver)
	<-a.ch.Done()
}

// circuit returns the circuit of the next request.
func (a *asker) circuit(ctx context.Context) (*circuit.Circuit, error) {
	if a.circ != nil && a.used < a.each && a.circ.Err() == nil {
		a.used++
		return a.circ, nil
	}
	if a.circ != nil {
		a.circ.Close(0, errOver)
	}
	c, err := a.load.through(ctx, a.ch, a.path)
	if err != nil {
		return nil, err
	}
	a.circ, a.used = c, 1
	return c, nil
}

// through builds a circuit: by CREATE_FAST, and then by the strongest handshake.
func (l *load) through(ctx context.Context, ch *channel.Channel, path []linkspec.Target) (*circuit.Circuit, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	c, err := circuit.Create(ctx, l.env, ch, path[0], circuit.HopOptions{Handshake: handshake.Fast})
	for _, t := range path[1:] {
		if err == nil {
			err = c.Extend(ctx, t, circuit.HopOptions{})
		}
	}
	if err != nil && c != nil {
		c.Close(0, errOver)
	}
	return c, err
}

// answer is what a directory said.
type answer struct {
	body   []byte // as it came: perhaps compressed
	status int
	zstd   bool
}

// plain returns the document.
func (a *answer) plain() ([]byte, error) {
	if !a.zstd {
		return a.body, nil
	}
	return unzstd(a.body)
}

// ask sends a request: its line, its headers, and a body if there is one.
func (a *asker) ask(ctx context.Context, line string, headers string, body []byte) (out answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	c, err := a.circuit(ctx)
	if err != nil {
		return out, err
	}
	s, err := stream.BeginDir(c.Last())
	if err != nil {
		return out, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if body != nil {
		headers += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := s.Write(append(fmt.Appendf(nil, "%s HTTP/1.0\r\n%s\r\n", line, headers), body...)); err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	return read(s)
}

// get asks for a document, compressed.
func (a *asker) get(ctx context.Context, path string, headers string) (answer, error) {
	return a.ask(ctx, "GET "+path, "Accept-Encoding: x-zstd\r\n"+headers, nil)
}

// read reads an answer.
func read(from io.Reader) (out answer, err error) {
	res, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		return out, fault.Wrap(fault.Network, err)
	}
	defer res.Body.Close()
	out.status, out.zstd = res.StatusCode, res.Header.Get("Content-Encoding") == "x-zstd"
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(res.Body, maxAnswer))
	out.body = b.Bytes()
	return out, fault.Wrap(fault.Network, err)
}
