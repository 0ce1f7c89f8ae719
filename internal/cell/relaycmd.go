package cell

import "strconv"

// RelayCommand is the command of a relay message.
type RelayCommand uint8

// Relay message commands. Each has a row in relayCommands.
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

	// Of the post-quantum experiment (docs/spec/pq-circuits.md and pq-onions.md).
	RelayLongExtend2     RelayCommand = 0xf0
	RelayLongExtended2   RelayCommand = 0xf1
	RelayRekeyRequest    RelayCommand = 0xf2
	RelayRekeyReply      RelayCommand = 0xf3
	RelayRekeyConfirm    RelayCommand = 0xf4
	RelayOnionCiphertext RelayCommand = 0xf5
	RelayOnionConfirm    RelayCommand = 0xf6

	// RelayHalfClose ends one direction of a stream (docs/spec/half-close.md).
	RelayHalfClose RelayCommand = 0xf7
)

// Traits is what the protocol says of a relay command, one bit for each answer.
// An unknown command has none.
type Traits uint16

// The traits.
const (
	// ByClient and ByRelay say which end of a hop may send the message. On an
	// onion service's side of a rendezvous circuit, the far end is a client.
	ByClient Traits = 1 << iota
	ByRelay
	// OnStream: see WantsStream.
	OnStream
	// OnEither: in RelayV0 the message may belong to a stream or to the circuit.
	OnEither
	// Opens: the message opens a stream, or asks for a lookup under its stream ID.
	Opens
	// Counted: circuit windows and congestion control count the message
	// (tor-spec, "Flow control"; proposal 324).
	Counted
	// Numbered: a conflux set gives the message a number (proposal 329).
	Numbered
	// Fragment: the body is one fragment of a longer message
	// (docs/spec/pq-circuits.md, section 4).
	Fragment

	byEither = ByClient | ByRelay
)

// relayCommands describes each relay command. A command that only the circuit
// knows has neither OnStream nor OnEither.
var relayCommands = map[RelayCommand]struct {
	name   string
	traits Traits
}{
	RelayBegin:                 {"BEGIN", ByClient | OnStream | Opens | Numbered},
	RelayData:                  {"DATA", byEither | OnStream | Counted | Numbered},
	RelayEnd:                   {"END", byEither | OnStream | Numbered},
	RelayConnected:             {"CONNECTED", ByRelay | OnStream | Numbered},
	RelaySendme:                {"SENDME", byEither | OnEither},
	RelayExtend:                {"EXTEND", ByClient},
	RelayExtended:              {"EXTENDED", ByRelay},
	RelayTruncate:              {"TRUNCATE", ByClient},
	RelayTruncated:             {"TRUNCATED", ByRelay},
	RelayDrop:                  {"DROP", byEither | OnEither},
	RelayResolve:               {"RESOLVE", ByClient | OnStream | Opens | Numbered},
	RelayResolved:              {"RESOLVED", ByRelay | OnStream | Numbered},
	RelayBeginDir:              {"BEGIN_DIR", ByClient | OnStream | Opens},
	RelayExtend2:               {"EXTEND2", ByClient},
	RelayExtended2:             {"EXTENDED2", ByRelay},
	RelayConfluxLink:           {"CONFLUX_LINK", ByClient},
	RelayConfluxLinked:         {"CONFLUX_LINKED", ByRelay},
	RelayConfluxLinkedAck:      {"CONFLUX_LINKED_ACK", ByClient},
	RelayConfluxSwitch:         {"CONFLUX_SWITCH", byEither},
	RelayEstablishIntro:        {"ESTABLISH_INTRO", ByClient},
	RelayEstablishRendezvous:   {"ESTABLISH_RENDEZVOUS", ByClient},
	RelayIntroduce1:            {"INTRODUCE1", ByClient},
	RelayIntroduce2:            {"INTRODUCE2", ByRelay},
	RelayRendezvous1:           {"RENDEZVOUS1", ByClient},
	RelayRendezvous2:           {"RENDEZVOUS2", ByRelay},
	RelayIntroEstablished:      {"INTRO_ESTABLISHED", ByRelay},
	RelayRendezvousEstablished: {"RENDEZVOUS_ESTABLISHED", ByRelay},
	RelayIntroduceAck:          {"INTRODUCE_ACK", ByRelay},
	RelayPaddingNegotiate:      {"PADDING_NEGOTIATE", ByClient},
	RelayPaddingNegotiated:     {"PADDING_NEGOTIATED", ByRelay},
	RelayXoff:                  {"XOFF", byEither | OnStream | Numbered},
	RelayXon:                   {"XON", byEither | OnStream | Numbered},

	RelayLongExtend2:     {"LONG_EXTEND2", ByClient | Fragment},
	RelayLongExtended2:   {"LONG_EXTENDED2", ByRelay | Fragment},
	RelayRekeyRequest:    {"REKEY_REQUEST", ByClient | Fragment},
	RelayRekeyReply:      {"REKEY_REPLY", ByRelay | Fragment},
	RelayRekeyConfirm:    {"REKEY_CONFIRM", ByClient | Fragment},
	RelayOnionCiphertext: {"ONION_CIPHERTEXT", ByClient | Fragment},
	RelayOnionConfirm:    {"ONION_CONFIRM", ByRelay | Fragment},

	RelayHalfClose: {"HALF_CLOSE", byEither | OnStream | Numbered},
}

// relayTraits is the table's column that every cell asks for, in few cache lines.
var relayTraits = func() (t [256]Traits) {
	for c, row := range relayCommands {
		t[c] = row.traits
	}
	return t
}()

// Traits returns what the protocol says of the command.
func (c RelayCommand) Traits() Traits { return relayTraits[c] }

// Has reports whether the command has one of the given traits, or several.
func (c RelayCommand) Has(t Traits) bool { return relayTraits[c]&t != 0 }

// Known reports whether the command is one of the constants above.
func (c RelayCommand) Known() bool { return relayTraits[c] != 0 }

// WantsStream reports whether a message with this command always belongs to a
// stream. In RelayV1 these messages carry a stream ID, and no others do.
func (c RelayCommand) WantsStream() bool { return c.Has(OnStream) }

// String returns the specification's name, or the number of an unknown command.
func (c RelayCommand) String() string {
	if s := relayCommands[c].name; s != "" {
		return s
	}
	return "relay command " + strconv.Itoa(int(c))
}
