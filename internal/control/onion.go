package control

import (
	"encoding/base32"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/torrc"
)

// Onions is what a server asks of its Engine about onion services. Addresses are without ".onion", and were
// checked before.
type Onions interface {
	// AddOnion begins a service, and returns its address and its secret key in base64. It waits for nothing on the
	// network.
	AddOnion(Onion) (address, key string, err error)
	// Findable reports whether the services are not anonymous: then ADD_ONION must say so, too.
	Findable() bool
	// DelOnion ends a service of AddOnion, and waits until nothing of it is left.
	DelOnion(address string) error
	OnionClients
	Descriptors
}

// Onion is the service that ADD_ONION asks for.
type Onion struct {
	Key          []byte   // the expanded secret key; nil: a new one
	Ports        []string // "PORT=TARGET", in the order in which they were given
	MaxStreams   int
	CloseCircuit bool
	PoW          bool
	Rate, Burst  int      // of PoW; zero: the usual ones
	Clients      []string // public keys of clients in base32; none: everybody may connect
}

// maxOnions bounds the services of all controllers: each has circuits and goroutines. C tor has no bound.
const maxOnions = 256

// maxOnionPorts bounds the ports of one service, with their targets.
const maxOnionPorts = 1024

// maxOnionClients bounds the clients of one service. No descriptor has room for as many.
const maxOnionClients = 512

// addressLen is the length of an address without ".onion".
const addressLen = 56

// keySize is the length of an expanded secret key, in bytes.
const keySize = 64

// addOnionWords are the keywords of ADD_ONION.
var addOnionWords = []string{"Port", "Flags", "MaxStreams", "PoWDefensesEnabled", "PoWQueueRate", "PoWQueueBurst", "ClientAuth", "ClientAuthV3"}

// order is what ADD_ONION asks for, beside the service.
type order struct {
	Onion
	discard, detach, authorized, findable bool
}

func invalid(format string, args ...any) error {
	return ctlwire.Errorf(ctlwire.BadArgument, format, args...)
}

// positional takes the first word, which must be there, and reads the keywords after it, of which those of known
// are allowed. ok is false if a reply was written that says what is wrong.
func (one *session) positional(c ctlwire.Command, known []string) (first string, rest []ctlwire.Keyword, ok bool, err error) {
	first, more := ctlwire.Cut(c.Args)
	if first == "" {
		return "", nil, false, one.badArguments(c, "Need at least 1 argument(s)")
	}
	rest, wrong := ctlwire.Keywords(more, 0)
	if wrong != nil {
		return "", nil, false, one.badArguments(c, "Cannot parse keyword argument(s)")
	}
	if k := unknownKeyword(rest, known); k != "" {
		return "", nil, false, one.badArguments(c, "Unrecognized keyword argument "+ctlwire.Quote(k))
	}
	return first, rest, true, nil
}

// unknownKeyword returns the first keyword that is not one of known.
func unknownKeyword(list []ctlwire.Keyword, known []string) string {
	for _, k := range list {
		if !slices.ContainsFunc(known, func(n string) bool { return strings.EqualFold(n, k.Key) }) {
			return k.Key
		}
	}
	return ""
}

func (one *session) addOnion(c ctlwire.Command) error {
	key, list, ok, err := one.positional(c, addOnionWords)
	if !ok {
		return err
	}
	var o order
	for _, k := range list {
		if err := o.take(k.Key, k.Value); err != nil {
			return one.fail(err)
		}
	}
	if err := o.check(one.srv.cfg.Engine.Findable()); err != nil {
		return one.fail(err)
	}
	if err := o.readKey(key); err != nil {
		return one.fail(err)
	}
	if !one.srv.mayAdd() {
		one.srv.cfg.Log.Warn("ADD_ONION: controllers have as many onion services as they may have", "most", maxOnions)
		return one.end(ctlwire.Failed, "Failed to add Onion Service")
	}
	address, secret, err := one.srv.cfg.Engine.AddOnion(o.Onion)
	if err != nil {
		one.srv.release()
		return one.fail(err)
	}
	one.keepOnion(address, o.detach)
	out := []string{"ServiceID=" + address}
	if o.Key == nil && !o.discard {
		out = append(out, "PrivateKey=ED25519-V3:"+secret)
	}
	for _, client := range o.Clients {
		out = append(out, "ClientAuthV3="+client)
	}
	return one.lines(ctlwire.OK, append(out, "OK"))
}

// take reads one keyword of ADD_ONION.
func (o *order) take(key, value string) (err error) {
	switch strings.ToLower(key) {
	case "port":
		port, err := torrc.OnionPort(strings.Replace(value, ",", " ", 1))
		if err != nil || len(o.Ports) == maxOnionPorts {
			return invalid("Invalid VIRTPORT/TARGET")
		}
		o.Ports = append(o.Ports, port)
	case "maxstreams":
		o.MaxStreams, err = number(value, 65535, "MaxStreams")
	case "powdefensesenabled":
		var on int
		on, err = number(value, 1, "PoWDefensesEnabled")
		o.PoW = on == 1
	case "powqueuerate":
		o.Rate, err = atLeastOne(value, "PoWQueueRate")
	case "powqueueburst":
		o.Burst, err = atLeastOne(value, "PoWQueueBurst")
	case "flags":
		err = o.takeFlags(value)
	case "clientauthv3":
		if b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(value)); err != nil || len(b) != 32 {
			return invalid("Cannot decode v3 client auth key")
		}
		if len(o.Clients) == maxOnionClients {
			return invalid("Invalid client authorization")
		}
		o.Clients = append(o.Clients, value)
	default: // ClientAuth, of an earlier version of services
		return invalid("Invalid client authorization")
	}
	return err
}

// takeFlags reads "Flag,Flag".
func (o *order) takeFlags(value string) error {
	flags := strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
	if len(flags) == 0 {
		return invalid("Invalid 'Flags' argument")
	}
	for _, f := range flags {
		switch strings.ToLower(f) {
		case "discardpk":
			o.discard = true
		case "detach":
			o.detach = true
		case "maxstreamsclosecircuit":
			o.CloseCircuit = true
		case "v3auth":
			o.authorized = true
		case "nonanonymous":
			o.findable = true
		default:
			return invalid("Invalid 'Flags' argument: %s", ctlwire.Quote(f))
		}
	}
	return nil
}

// check looks at what the keywords ask for together.
func (o *order) check(findable bool) error {
	switch {
	case len(o.Ports) == 0:
		return invalid("Missing 'Port' argument")
	case !o.authorized && len(o.Clients) > 0:
		return invalid("No auth type specified")
	case o.authorized && len(o.Clients) == 0:
		return invalid("No auth clients specified")
	case o.findable && !findable:
		return invalid("Tor is in anonymous hidden service mode")
	case findable && !o.findable:
		return invalid("Tor is in non-anonymous hidden service mode")
	}
	return nil
}

// readKey reads "TYPE:BLOB". Errors repeat nothing of it: it may be a secret.
func (o *order) readKey(text string) error {
	kind, blob, ok := strings.Cut(text, ":")
	if !ok || kind == "" || blob == "" || strings.Contains(blob, ":") {
		return invalid("Invalid key type/blob")
	}
	switch {
	case strings.EqualFold(kind, "NEW") && (strings.EqualFold(blob, "BEST") || strings.EqualFold(blob, "ED25519-V3")):
		return nil
	case strings.EqualFold(kind, "ED25519-V3"):
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(blob, "="))
		if err != nil || len(b) != keySize {
			return invalid("Failed to decode ED25519-V3 key")
		}
		o.Key = b
		return nil
	}
	return ctlwire.Errorf(ctlwire.BadValue, "Invalid key type")
}

func number(value string, most uint64, name string) (int, error) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > most {
		return 0, invalid("Invalid %s", name)
	}
	return int(n), nil
}

// atLeastOne reads a number of which C tor's zero means no bound: Chive always has one.
func atLeastOne(value, name string) (int, error) {
	n, err := number(value, 1<<31-1, name)
	if err == nil && n == 0 {
		err = invalid("Invalid %s", name)
	}
	return n, err
}

func (one *session) delOnion(c ctlwire.Command) error {
	args := words(c)
	switch {
	case len(args) == 0:
		return one.badArguments(c, "Need at least 1 argument(s)")
	case len(args) > 1:
		return one.badArguments(c, "Cannot accept more than 1 argument(s)")
	}
	if !IsAddress(args[0]) {
		return one.end(ctlwire.BadArgument, "Malformed Onion Service id")
	}
	if !one.dropOnion(args[0]) {
		return one.end(ctlwire.Unknown, "Unknown Onion Service id")
	}
	err := one.srv.cfg.Engine.DelOnion(args[0])
	one.srv.release()
	if err != nil {
		return one.fail(err)
	}
	return one.ok()
}

// IsAddress reports whether a text is the address of an onion service, without ".onion".
func IsAddress(text string) bool {
	if len(text) != addressLen { // names may stand before an address elsewhere
		return false
	}
	_, err := hscrypto.ParseAddress(text + ".onion")
	return err == nil
}
