// Package cell encodes and decodes link cells and relay messages: bytes in,
// bytes out, no state (tor-spec, "Cells" and "Relay cells").
//
// A fixed cell is a plain []byte of Len bytes with a four-byte circuit ID (link
// protocol 4 and later):
//
//	offset 0   circuit ID, 4 bytes
//	offset 4   command, 1 byte
//	offset 5   payload, PayloadLen bytes, zero or random padded
//
// A variable cell has a two-byte length after the command and is not padded:
//
//	offset 0   circuit ID, 4 bytes
//	offset 4   command, 1 byte (7, or 128 and more)
//	offset 5   length of the body, 2 bytes
//	offset 7   body
//
// Before both ends agree on a link protocol, circuit IDs have two bytes; only
// VERSIONS is sent in that form.
//
// Every message body has a type with Append (which writes the body behind dst)
// and a Parse function. Byte slices in a parsed message alias the input. Bytes
// behind the last field of a body are ignored, because bodies are padded in
// fixed cells and later versions of the protocol may add fields; formats that
// are lists to the end say so.
//
// What a peer can choose never makes an encoder panic: PutHeader and
// Resolved.Append return errors. The other encoders panic when a field cannot
// hold a length. Only a mistake of our own code can cause that: each byte slice
// comes from our own keys, handshakes and settings, or from a field of the same
// width.
package cell

import (
	"encoding/binary"
	"strconv"
)

// Sizes of cells, in bytes.
const (
	Len          = 514 // a fixed cell
	HeaderLen    = 5   // circuit ID and command
	PayloadLen   = 509 // the payload of a fixed cell
	VarHeaderLen = 7   // circuit ID, command, and length of a variable cell
	MaxVarLen    = VarHeaderLen + 0xffff

	// MaxLong is the longest body of a LONG_CREATE2 or LONG_CREATED2, and of a
	// LONG_EXTEND2 or LONG_EXTENDED2 that is put together
	// (docs/spec/pq-circuits.md, section 4).
	MaxLong = 2048
)

// Command is the command of a link cell.
type Command uint8

// Link cell commands.
const (
	CmdPadding          Command = 0
	CmdCreate           Command = 1 // obsolete (TAP); refused
	CmdCreated          Command = 2 // obsolete (TAP); refused
	CmdRelay            Command = 3
	CmdDestroy          Command = 4
	CmdCreateFast       Command = 5
	CmdCreatedFast      Command = 6
	CmdVersions         Command = 7
	CmdNetinfo          Command = 8
	CmdRelayEarly       Command = 9
	CmdCreate2          Command = 10
	CmdCreated2         Command = 11
	CmdPaddingNegotiate Command = 12
	CmdVPadding         Command = 128
	CmdCerts            Command = 129
	CmdAuthChallenge    Command = 130
	CmdAuthenticate     Command = 131
	CmdAuthorize        Command = 132

	// Of the post-quantum experiment (docs/spec/pq-circuits.md).
	CmdLongCreate2  Command = 0xf0
	CmdLongCreated2 Command = 0xf1
)

// IsVariable reports whether cells with this command carry a length.
func (c Command) IsVariable() bool { return c == CmdVersions || c >= 128 }

var commandNames = map[Command]string{
	CmdPadding: "PADDING", CmdCreate: "CREATE", CmdCreated: "CREATED", CmdRelay: "RELAY", CmdDestroy: "DESTROY",
	CmdCreateFast: "CREATE_FAST", CmdCreatedFast: "CREATED_FAST", CmdVersions: "VERSIONS", CmdNetinfo: "NETINFO",
	CmdRelayEarly: "RELAY_EARLY", CmdCreate2: "CREATE2", CmdCreated2: "CREATED2",
	CmdPaddingNegotiate: "PADDING_NEGOTIATE", CmdVPadding: "VPADDING", CmdCerts: "CERTS",
	CmdAuthChallenge: "AUTH_CHALLENGE", CmdAuthenticate: "AUTHENTICATE", CmdAuthorize: "AUTHORIZE",
	CmdLongCreate2: "LONG_CREATE2", CmdLongCreated2: "LONG_CREATED2",
}

// String returns the specification's name, or the number of an unknown command.
func (c Command) String() string {
	if s := commandNames[c]; s != "" {
		return s
	}
	return "command " + strconv.Itoa(int(c))
}

// CircID returns the circuit ID of a cell of at least HeaderLen bytes.
func CircID(c []byte) uint32 { return binary.BigEndian.Uint32(c) }

// SetCircID overwrites the circuit ID, as a relay does between two links.
func SetCircID(c []byte, id uint32) { binary.BigEndian.PutUint32(c, id) }

// Cmd returns the command of a cell of at least HeaderLen bytes.
func Cmd(c []byte) Command { return Command(c[4]) }

// Payload returns the payload of a fixed cell, in place.
func Payload(c []byte) *[PayloadLen]byte { return (*[PayloadLen]byte)(c[HeaderLen:Len]) }

// PutHeader writes the circuit ID and the command of a cell.
func PutHeader(c []byte, id uint32, cmd Command) {
	_ = c[4]
	binary.BigEndian.PutUint32(c, id)
	c[4] = byte(cmd)
}

// Size returns the length of the cell at the front of b, which begins with
// four-byte circuit IDs, or 0 when b is too short to tell.
func Size(b []byte) int {
	if len(b) < HeaderLen {
		return 0
	}
	if !Command(b[4]).IsVariable() {
		return Len
	}
	if len(b) < VarHeaderLen {
		return 0
	}
	return VarHeaderLen + int(binary.BigEndian.Uint16(b[5:]))
}

// AppendFixed writes a fixed cell with body, zero-padded. A body longer than
// PayloadLen is a bug of the caller and panics.
func AppendFixed(dst []byte, id uint32, cmd Command, body []byte) []byte {
	if len(body) > PayloadLen || cmd.IsVariable() {
		panic("cell: " + cmd.String() + " body of " + strconv.Itoa(len(body)) + " bytes does not fit a fixed cell")
	}
	dst = binary.BigEndian.AppendUint32(dst, id)
	dst = append(dst, byte(cmd))
	dst = append(dst, body...)
	return append(dst, zeros[:PayloadLen-len(body)]...)
}

// AppendVar writes a variable cell. A body longer than 65535 bytes is a bug of
// the caller and panics.
func AppendVar(dst []byte, id uint32, cmd Command, body []byte) []byte {
	if len(body) > 0xffff || !cmd.IsVariable() {
		panic("cell: " + cmd.String() + " body of " + strconv.Itoa(len(body)) + " bytes does not fit a variable cell")
	}
	dst = binary.BigEndian.AppendUint32(dst, id)
	dst = append(dst, byte(cmd))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	return append(dst, body...)
}

var zeros [PayloadLen]byte

// appendVec16 writes a two-byte length and b. Callers pass what they made, or
// what they read out of such a field.
func appendVec16(dst []byte, what string, b []byte) []byte {
	if len(b) > 0xffff {
		panic("cell: " + what + ": " + strconv.Itoa(len(b)) + " bytes do not fit a two-byte length")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(b)))
	return append(dst, b...)
}

// appendVec8 writes a one-byte length and b. Callers pass what they made, or what
// they read out of such a field.
func appendVec8(dst []byte, what string, b []byte) []byte {
	if len(b) > 0xff {
		panic("cell: " + what + ": " + strconv.Itoa(len(b)) + " bytes do not fit a one-byte length")
	}
	dst = append(dst, byte(len(b)))
	return append(dst, b...)
}
