package cell

import (
	"encoding/binary"
	"strconv"

	"github.com/chivenet/chive/internal/fault"
)

// RelayCommand is the command of a relay message.
type RelayCommand uint8

// Relay message commands.
const (
	RelayBegin                 RelayCommand = 1
	RelayData                  RelayCommand = 2
	RelayEnd                   RelayCommand = 3
	RelayConnected             RelayCommand = 4
	RelaySendme                RelayCommand = 5
	RelayExtend                RelayCommand = 6 // obsolete (TAP); refused
	RelayExtended              RelayCommand = 7 // obsolete (TAP); refused
	RelayTruncate              RelayCommand = 8
	RelayTruncated             RelayCommand = 9
	RelayDrop                  RelayCommand = 10
	RelayResolve               RelayCommand = 11
	RelayResolved              RelayCommand = 12
	RelayBeginDir              RelayCommand = 13
	RelayExtend2               RelayCommand = 14
	RelayExtended2             RelayCommand = 15
	RelayConfluxLink           RelayCommand = 19
	RelayConfluxLinked         RelayCommand = 20
	RelayConfluxLinkedAck      RelayCommand = 21
	RelayConfluxSwitch         RelayCommand = 22
	RelayEstablishIntro        RelayCommand = 32
	RelayEstablishRendezvous   RelayCommand = 33
	RelayIntroduce1            RelayCommand = 34
	RelayIntroduce2            RelayCommand = 35
	RelayRendezvous1           RelayCommand = 36
	RelayRendezvous2           RelayCommand = 37
	RelayIntroEstablished      RelayCommand = 38
	RelayRendezvousEstablished RelayCommand = 39
	RelayIntroduceAck          RelayCommand = 40
	RelayPaddingNegotiate      RelayCommand = 41
	RelayPaddingNegotiated     RelayCommand = 42
	RelayXoff                  RelayCommand = 43
	RelayXon                   RelayCommand = 44

	// Of the post-quantum experiment (docs/spec/pq-circuits.md).
	RelayLongExtend2   RelayCommand = 0xf0
	RelayLongExtended2 RelayCommand = 0xf1
	RelayRekeyRequest  RelayCommand = 0xf2
	RelayRekeyReply    RelayCommand = 0xf3
	RelayRekeyConfirm  RelayCommand = 0xf4
)

// relayNames also says which commands are known.
var relayNames = [256]string{
	RelayBegin: "BEGIN", RelayData: "DATA", RelayEnd: "END", RelayConnected: "CONNECTED", RelaySendme: "SENDME",
	RelayExtend: "EXTEND", RelayExtended: "EXTENDED", RelayTruncate: "TRUNCATE", RelayTruncated: "TRUNCATED",
	RelayDrop: "DROP", RelayResolve: "RESOLVE", RelayResolved: "RESOLVED", RelayBeginDir: "BEGIN_DIR",
	RelayExtend2: "EXTEND2", RelayExtended2: "EXTENDED2", RelayConfluxLink: "CONFLUX_LINK",
	RelayConfluxLinked: "CONFLUX_LINKED", RelayConfluxLinkedAck: "CONFLUX_LINKED_ACK",
	RelayConfluxSwitch: "CONFLUX_SWITCH", RelayEstablishIntro: "ESTABLISH_INTRO",
	RelayEstablishRendezvous: "ESTABLISH_RENDEZVOUS", RelayIntroduce1: "INTRODUCE1", RelayIntroduce2: "INTRODUCE2",
	RelayRendezvous1: "RENDEZVOUS1", RelayRendezvous2: "RENDEZVOUS2", RelayIntroEstablished: "INTRO_ESTABLISHED",
	RelayRendezvousEstablished: "RENDEZVOUS_ESTABLISHED", RelayIntroduceAck: "INTRODUCE_ACK",
	RelayPaddingNegotiate: "PADDING_NEGOTIATE", RelayPaddingNegotiated: "PADDING_NEGOTIATED",
	RelayXoff: "XOFF", RelayXon: "XON",
	RelayLongExtend2: "LONG_EXTEND2", RelayLongExtended2: "LONG_EXTENDED2", RelayRekeyRequest: "REKEY_REQUEST",
	RelayRekeyReply: "REKEY_REPLY", RelayRekeyConfirm: "REKEY_CONFIRM",
}

// String returns the specification's name, or the number of an unknown command.
func (c RelayCommand) String() string {
	if s := relayNames[c]; s != "" {
		return s
	}
	return "relay command " + strconv.Itoa(int(c))
}

// Known reports whether the command is one of the constants above.
func (c RelayCommand) Known() bool { return relayNames[c] != "" }

// WantsStream reports whether a message with this command always belongs to a
// stream. In RelayV1 these, and only these, carry a stream ID; in RelayV0 a
// SENDME may belong to a stream too.
func (c RelayCommand) WantsStream() bool {
	// One bit a command: the set is asked for every cell.
	const set = 1<<RelayBegin | 1<<RelayData | 1<<RelayEnd | 1<<RelayConnected | 1<<RelayResolve |
		1<<RelayResolved | 1<<RelayBeginDir | 1<<RelayXoff | 1<<RelayXon
	return c < 64 && uint64(set)>>c&1 == 1
}

// RelayFormat is the layout of a relay message in the payload of a RELAY cell.
type RelayFormat uint8

// The layouts. RelayV0 belongs to tor1 relay crypto:
//
//	0 command, 1; 1 recognized, 2; 3 stream ID, 2; 5 digest, 4; 9 length, 2; 11 body
//
// RelayV1 (proposals 340 and 359) belongs to CGO:
//
//	0 tag, 16; 16 command, 1; 17 length, 2; 19 body, or 19 stream ID, 2; 21 body
const (
	RelayV0 RelayFormat = 0
	RelayV1 RelayFormat = 1
)

// Offsets of fields within the payload.
const (
	V0Recognized = 1  // two zero bytes in a cell that arrived
	V0Digest     = 5  // four bytes of the running digest
	V0Header     = 11 // where a RelayV0 body begins
	V1TagLen     = 16 // the CGO tag in front of a RelayV1 message

	v0Stream, v0Length = 3, 9
	v1Cmd, v1Length    = 16, 17
	v1Stream           = 19
	v1Header           = 19
	v1HeaderStream     = 21
)

// String returns "v0" or "v1".
func (f RelayFormat) String() string { return "v" + strconv.Itoa(int(f)) }

// MaxData returns the greatest length of a body, in bytes: 498 in RelayV0, 488
// (with a stream ID) or 490 in RelayV1.
func (f RelayFormat) MaxData(withStream bool) int {
	switch {
	case f == RelayV0:
		return PayloadLen - V0Header
	case withStream:
		return PayloadLen - v1HeaderStream
	}
	return PayloadLen - v1Header
}

// DataOffset returns where in the payload the body of such a message begins.
func (f RelayFormat) DataOffset(cmd RelayCommand) int {
	switch {
	case f == RelayV0:
		return V0Header
	case cmd.WantsStream():
		return v1HeaderStream
	}
	return v1Header
}

// PutHeader writes the header of a message whose body of n bytes is, or will
// be, at DataOffset. Recognized and digest, or the tag, become zero. What
// follows the body is the caller's: the specification asks for four zero bytes
// and then random ones. A body over MaxData is refused, and in RelayV1 a stream
// ID that the command does not take, or lacks: what is sent on a circuit follows
// from what its peers chose.
func (f RelayFormat) PutHeader(p *[PayloadLen]byte, cmd RelayCommand, stream uint16, n int) error {
	withStream := cmd.WantsStream()
	if uint(n) > uint(f.MaxData(withStream)) {
		return fault.New(fault.Local, "send %v: %d bytes, %d fit", cmd, n, f.MaxData(withStream))
	}
	if f == RelayV0 {
		p[0] = byte(cmd)
		p[1], p[2] = 0, 0
		binary.BigEndian.PutUint16(p[v0Stream:], stream)
		binary.BigEndian.PutUint32(p[V0Digest:], 0)
		binary.BigEndian.PutUint16(p[v0Length:], uint16(n))
		return nil
	}
	if withStream != (stream != 0) {
		return fault.New(fault.Local, "send %v: stream ID %d, which relay message %v does not allow", cmd, stream, f)
	}
	clear(p[:V1TagLen])
	p[v1Cmd] = byte(cmd)
	binary.BigEndian.PutUint16(p[v1Length:], uint16(n))
	if withStream {
		binary.BigEndian.PutUint16(p[v1Stream:], stream)
	}
	return nil
}

// RelayMsg is a relay message, decrypted and recognised.
type RelayMsg struct {
	Cmd    RelayCommand
	Stream uint16 // 0 for a message of the circuit
	Data   []byte // the body; aliases the payload
}

// Parse reads the message in a decrypted, recognised payload. A length over
// what the cell holds, and a missing stream ID, are refused. An unknown command
// is refused in RelayV1, where it leaves open whether a stream ID follows, and
// returned in RelayV0.
func (f RelayFormat) Parse(p *[PayloadLen]byte) (RelayMsg, error) {
	if f == RelayV0 {
		n := int(binary.BigEndian.Uint16(p[v0Length:]))
		m := RelayMsg{Cmd: RelayCommand(p[0]), Stream: binary.BigEndian.Uint16(p[v0Stream:])}
		if n > PayloadLen-V0Header {
			return RelayMsg{}, errLength(f, m.Cmd, n)
		}
		if m.Stream == 0 && m.Cmd.WantsStream() {
			return RelayMsg{}, errStream(f, m.Cmd)
		}
		m.Data = p[V0Header : V0Header+n : V0Header+n]
		return m, nil
	}
	m := RelayMsg{Cmd: RelayCommand(p[v1Cmd])}
	if !m.Cmd.Known() {
		return RelayMsg{}, fault.New(fault.Protocol, "relay message %v: unknown %v", f, m.Cmd)
	}
	off := v1Header
	if m.Cmd.WantsStream() {
		off = v1HeaderStream
		if m.Stream = binary.BigEndian.Uint16(p[v1Stream:]); m.Stream == 0 {
			return RelayMsg{}, errStream(f, m.Cmd)
		}
	}
	n := int(binary.BigEndian.Uint16(p[v1Length:]))
	if n > PayloadLen-off {
		return RelayMsg{}, errLength(f, m.Cmd, n)
	}
	m.Data = p[off : off+n : off+n]
	return m, nil
}

func errLength(f RelayFormat, cmd RelayCommand, n int) error {
	return fault.New(fault.Protocol, "relay message %v: %v: length %d is over %d", f, cmd, n, f.MaxData(cmd.WantsStream()))
}

func errStream(f RelayFormat, cmd RelayCommand) error {
	return fault.New(fault.Protocol, "relay message %v: %v without a stream ID", f, cmd)
}
