package control

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
)

// OnionClients is what a server asks of its Engine about the keys by which onion services know this client.
type OnionClients interface {
	// AddOnionKey adds a key, or replaces one, also in a file if the key is permanent. A permanent key that cannot
	// be stored is an error, and not added.
	AddOnionKey(OnionKey) (replaced bool, err error)
	// RemoveOnionKey removes the key for a service, also its file, and reports whether there was one.
	RemoveOnionKey(address string) (bool, error)
	// OnionKeys returns the keys.
	OnionKeys() []OnionKey
}

// OnionKey is a client's secret key for one service.
type OnionKey struct {
	Address   string // without ".onion"
	Secret    [32]byte
	Permanent bool
	Name      string // that the controller gave it; empty: none
}

// maxClientName bounds the name of a key. C tor has the same bound.
const maxClientName = 16

// arguments splits off count words, as many as there are, and reads the keywords after them.
func (one *session) arguments(c ctlwire.Command, count int) (args []string, rest []ctlwire.Keyword, ok bool, err error) {
	text := c.Args
	for len(args) < count && text != "" {
		var word string
		word, text = ctlwire.Cut(text)
		args = append(args, word)
	}
	rest, wrong := ctlwire.Keywords(text, ctlwire.ValueOptional)
	if wrong != nil {
		return nil, nil, false, one.badArguments(c, "Cannot parse keyword argument(s)")
	}
	return args, rest, true, nil
}

func (one *session) authAdd(c ctlwire.Command) error {
	args, rest, ok, err := one.arguments(c, 2)
	if !ok {
		return err
	}
	if len(args) < 2 {
		return one.end(ctlwire.BadArgument, "Incomplete ONION_CLIENT_AUTH_ADD command")
	}
	k := OnionKey{Address: args[0]}
	if !IsAddress(k.Address) {
		return one.end(ctlwire.BadArgument, `Invalid v3 address "`+k.Address+`"`)
	}
	if err := k.readSecret(args[1]); err != nil {
		return one.fail(err)
	}
	for _, w := range rest {
		if err := k.take(w); err != nil {
			return one.fail(err)
		}
	}
	replaced, err := one.srv.cfg.Engine.AddOnionKey(k)
	switch {
	case err != nil:
		return one.fail(err)
	case replaced:
		return one.end(251, "Client for onion existed and replaced")
	}
	return one.ok()
}

// readSecret reads "x25519:KEY".
func (k *OnionKey) readSecret(text string) error {
	kind, blob, ok := strings.Cut(text, ":")
	switch {
	case !ok || kind == "" || blob == "" || strings.Contains(blob, ":"):
		return invalid("Invalid key type/blob")
	case !strings.EqualFold(kind, "x25519"):
		return ctlwire.Errorf(ctlwire.Unknown, "Unrecognized key type %q", kind)
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(blob, "="))
	if err != nil || len(b) != len(k.Secret) {
		return invalid("Failed to decode x25519 private key")
	}
	if k.Secret = [32]byte(b); k.Secret == [32]byte{} {
		return ctlwire.Errorf(ctlwire.BadConfig, "Invalid private key %q", blob)
	}
	return nil
}

func (k *OnionKey) take(w ctlwire.Keyword) error {
	switch strings.ToLower(w.Key) {
	case "flags":
		flags := strings.FieldsFunc(w.Value, func(r rune) bool { return r == ',' })
		if len(flags) == 0 {
			return invalid("Invalid 'Flags' argument")
		}
		for _, f := range flags {
			if !strings.EqualFold(f, "Permanent") {
				return invalid("Invalid 'Flags' argument: %s", ctlwire.Quote(f))
			}
			k.Permanent = true
		}
	case "clientname":
		if len(w.Value) > maxClientName {
			return invalid("ClientName longer than %d chars", maxClientName)
		}
		k.Name = w.Value
	}
	return nil // C tor ignores other words
}

// oneAddress reads the address that a command takes, which may be missing.
func (one *session) oneAddress(c ctlwire.Command) (address string, ok bool, err error) {
	args, _, ok, err := one.arguments(c, 1)
	if !ok || len(args) == 0 {
		return "", ok, err
	}
	if !IsAddress(args[0]) {
		return "", false, one.end(ctlwire.BadArgument, `Invalid v3 address "`+args[0]+`"`)
	}
	return args[0], true, nil
}

func (one *session) authRemove(c ctlwire.Command) error {
	address, ok, err := one.oneAddress(c)
	switch {
	case !ok:
		return err
	case address == "":
		return one.end(ctlwire.BadArgument, "Incomplete ONION_CLIENT_AUTH_REMOVE command")
	}
	was, err := one.srv.cfg.Engine.RemoveOnionKey(address)
	switch {
	case err != nil:
		return one.fail(err)
	case !was:
		return one.end(251, `No credentials for "`+address+`"`)
	}
	return one.ok()
}

func (one *session) authView(c ctlwire.Command) error {
	address, ok, err := one.oneAddress(c)
	if !ok {
		return err
	}
	var list []string
	for _, k := range one.srv.cfg.Engine.OnionKeys() {
		if address != "" && k.Address != address {
			continue
		}
		text := "CLIENT " + k.Address + " x25519:" + base64.StdEncoding.EncodeToString(k.Secret[:])
		if k.Permanent {
			text += " Flags=Permanent"
		}
		if k.Name != "" {
			text += " ClientName=" + k.Name
		}
		list = append(list, text)
	}
	slices.Sort(list)
	head := "ONION_CLIENT_AUTH_VIEW"
	if address != "" {
		head += " " + address
	}
	return one.lines(ctlwire.OK, slices.Concat([]string{head}, list, []string{"OK"}))
}
