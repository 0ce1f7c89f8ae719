package channel

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"net"
	"os"
	"slices"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// maxHandshakeBytes bounds what a peer may send before its NETINFO ends: an
// honest relay sends about 3 kB.
const maxHandshakeBytes = 48 << 10

// earlyFixed is the length of a fixed cell before VERSIONS has been exchanged: its circuit ID has two bytes.
const earlyFixed = 2 + 1 + cell.PayloadLen

// linkVersions are the link protocols that this end speaks, the best one last.
var linkVersions = cell.Versions{4, 5}

// offeredVersions are those that this end names. No peer of today has only the third, and one that does is
// refused; but C tor names it, and a watcher sees the length.
var offeredVersions = cell.Versions{3, 4, 5}

// handshakeCells reads and writes cells during a link handshake and hashes both
// directions for AUTHENTICATE.
type handshakeCells struct {
	conn    net.Conn
	quick   func() // called before each read; see quickACK
	version uint16 // 0 until the ends exchanged VERSIONS

	buf []byte // all bytes received; cells alias it, so its bytes never move
	off int    // where the next cell begins

	sent, received hash.Hash
	before         [32]byte // hash of all bytes received before the last cell that next returned
}

// newHandshakeCells reads and writes cells on conn, a TLS connection over raw.
func newHandshakeCells(conn, raw net.Conn) *handshakeCells {
	return &handshakeCells{conn: conn, quick: quickACK(raw), sent: sha256.New(), received: sha256.New()}
}

// digest returns a hash's present value; the hash can go on.
func digest(h hash.Hash) (d [32]byte) {
	h.Sum(d[:0])
	return d
}

// write sends cells that belong to the hashed part of the handshake.
func (h *handshakeCells) write(b []byte, what string) error {
	h.sent.Write(b)
	return h.writeUnhashed(b, what)
}

func (h *handshakeCells) writeUnhashed(b []byte, what string) error {
	if _, err := h.conn.Write(b); err != nil {
		return ioError(err, "sending "+what)
	}
	return nil
}

// next returns the next cell that is not padding. Its body is valid as long as h
// is. waiting names the expected cells, for errors.
func (h *handshakeCells) next(waiting string) (cell.Command, []byte, error) {
	for {
		header := cell.VarHeaderLen
		if h.version == 0 {
			header = 5 // two-byte circuit ID, command, length
		}
		if err := h.fill(header, waiting); err != nil {
			return 0, nil, err
		}
		b := h.buf[h.off:]
		var id uint32
		var cmd cell.Command
		var size, bodyAt int
		if h.version == 0 {
			id, cmd = uint32(binary.BigEndian.Uint16(b)), cell.Command(b[2])
			size, bodyAt = header+int(binary.BigEndian.Uint16(b[3:])), header
			if !cmd.IsVariable() {
				size, bodyAt = earlyFixed, header
			}
		} else {
			id, cmd, size, bodyAt = cell.CircID(b), cell.Cmd(b), cell.Size(b), cell.HeaderLen
			if cmd.IsVariable() {
				bodyAt = cell.VarHeaderLen
			}
		}
		// Like C tor, wait for the whole of a cell that is not allowed, too: what is no cell, such as a request of HTTP, is
		// mostly the begin of one.
		if err := h.fill(size, waiting); err != nil {
			return 0, nil, err
		}
		if id != 0 {
			return 0, nil, fault.New(fault.Protocol, "%v: circuit ID %d in the handshake", cmd, id)
		}
		if h.version == 0 && cmd != cell.CmdVersions && cmd != cell.CmdVPadding && cmd != cell.CmdAuthorize {
			return 0, nil, fault.New(fault.Protocol, "%v before VERSIONS", cmd)
		}
		c := h.buf[h.off : h.off+size : h.off+size]
		h.off += size
		h.before = digest(h.received)
		h.received.Write(c)
		switch cmd {
		case cell.CmdVPadding, cell.CmdPadding, cell.CmdAuthorize:
			continue // padding may come at any time; AUTHORIZE is reserved and ignored
		}
		return cmd, c[bodyAt:], nil
	}
}

// fill reads until buf holds n bytes of the next cell.
func (h *handshakeCells) fill(n int, waiting string) error {
	if h.off+n > maxHandshakeBytes {
		return fault.New(fault.Protocol, "more than %d bytes while waiting for %s", maxHandshakeBytes, waiting)
	}
	for len(h.buf)-h.off < n {
		h.buf = slices.Grow(h.buf, 4096)
		h.quick()
		m, err := h.conn.Read(h.buf[len(h.buf):cap(h.buf)])
		h.buf = h.buf[:len(h.buf)+m]
		if err != nil && len(h.buf)-h.off < n {
			return ioError(err, "waiting for "+waiting)
		}
	}
	return nil
}

// leftover returns a copy of the bytes read after the last cell.
func (h *handshakeCells) leftover() []byte { return slices.Clone(h.buf[h.off:]) }

// negotiate reads the peer's VERSIONS and chooses the link protocol.
func (h *handshakeCells) negotiate() error {
	_, body, err := h.next("VERSIONS") // next accepts no other cell before VERSIONS
	if err != nil {
		return err
	}
	theirs, err := cell.ParseVersions(body)
	if err != nil {
		return err
	}
	for _, v := range linkVersions {
		if slices.Contains(theirs, v) {
			h.version = v
		}
	}
	if h.version == 0 {
		return fault.New(fault.Protocol, "VERSIONS: no link protocol in common: the peer has %v, this end has %v", theirs, linkVersions)
	}
	return nil
}

// unexpected returns the error for a cell that is not allowed at this point.
func unexpected(cmd cell.Command, waiting string) error {
	return fault.New(fault.Protocol, "%v while waiting for %s", cmd, waiting)
}

// ioError adds a kind to an error of the connection.
func ioError(err error, doing string) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.Network, "%s: the peer closed the connection (%w)", doing, io.EOF)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Timeout, "%s: %w", doing, hideAddr(err))
	}
	return fault.New(fault.Network, "%s: %w", doing, hideAddr(err))
}
