package control

import (
	"encoding/hex"
	"strings"

	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/ident"
)

// Descriptors is what a server asks of its Engine about descriptors of onion services.
type Descriptors interface {
	// HasDirectory reports whether a relay may have descriptors, as far as this client knows.
	HasDirectory(ident.RSAID) bool
	// FetchDescriptor has the descriptor of a service fetched from each of some directories; none: from one of
	// those that should have it. What comes of it is in events. It does not wait.
	FetchDescriptor(address string, from []ident.RSAID) error
	// PostDescriptor has a descriptor given to directories; none: to those that should have it. It does not wait.
	// An error is about the descriptor.
	PostDescriptor(address string, text []byte, to []ident.RSAID) error
}

// maxServers bounds the directories that one command names: each gets a circuit of its own.
const maxServers = 32

// servers reads the values of SERVER=.
func (one *session) servers(list []ctlwire.Keyword) (out []ident.RSAID, err error) {
	for _, k := range list {
		if !strings.EqualFold(k.Key, "SERVER") {
			continue
		}
		id, ok := relayID(k.Value)
		if !ok || !one.srv.cfg.Engine.HasDirectory(id) {
			return nil, ctlwire.Errorf(ctlwire.Unknown, "Server %q not found", k.Value)
		}
		if len(out) == maxServers {
			return nil, ctlwire.Errorf(ctlwire.BadArgument, "more than %d servers", maxServers)
		}
		out = append(out, id)
	}
	return out, nil
}

// relayID reads a relay's fingerprint: "$" may stand before it, and "~NAME" or "=NAME" after it.
func relayID(text string) (id ident.RSAID, ok bool) {
	text = strings.TrimPrefix(text, "$")
	if i := strings.IndexAny(text, "~="); i >= 0 {
		text = text[:i]
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return ident.RSAID(b), true
}

func (one *session) hsFetch(c ctlwire.Command) error {
	address, list, ok, err := one.positional(c, []string{"SERVER"})
	if !ok {
		return err
	}
	if !IsAddress(address) {
		return one.end(ctlwire.BadValue, `Invalid argument "`+address+`"`)
	}
	from, err := one.servers(list)
	if err == nil {
		err = one.srv.cfg.Engine.FetchDescriptor(address, from)
	}
	if err != nil {
		return one.fail(err)
	}
	return one.ok()
}

func (one *session) hsPost(c ctlwire.Command) error {
	list, ok, err := one.keywords(c, 0)
	if !ok {
		return err
	}
	if k := unknownKeyword(list, []string{"SERVER", "HSADDRESS"}); k != "" {
		return one.badArguments(c, "Unrecognized keyword argument "+ctlwire.Quote(k))
	}
	to, err := one.servers(list)
	if err != nil {
		return one.fail(err)
	}
	address := ""
	for _, k := range list {
		if strings.EqualFold(k.Key, "HSADDRESS") {
			if address = k.Value; !IsAddress(address) {
				return one.end(ctlwire.BadArgument, "Malformed onion address")
			}
		}
	}
	if address == "" { // C tor answers nothing, and the controller would wait
		return one.end(ctlwire.BadArgument, "Malformed onion address")
	}
	if err := one.srv.cfg.Engine.PostDescriptor(address, c.Data, to); err != nil {
		return one.end(554, "Invalid descriptor")
	}
	return one.ok()
}

// EventData is EventSeq for the lines of a text.
func (s *Server) EventData(name, text string, data []byte) error {
	return s.EventSeq(name, text, func(yield func(string) bool) {
		for l := range strings.Lines(string(data)) {
			if !yield(strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")) {
				return
			}
		}
	})
}
