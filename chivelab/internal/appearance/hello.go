package appearance

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// hello is what a ClientHello shows (RFC 8446, section 4.1.2).
type hello struct {
	length     int
	session    int
	suites     string
	extensions string // their numbers, in order
	bodies     map[uint16][]byte
	name       string // of the server
}

// Extensions of TLS.
const (
	extName       = 0
	extGroups     = 10
	extSignatures = 13
	extPadding    = 21
	extVersions   = 43
	extShares     = 51
)

// readHello reads a ClientHello from the first record of a connection.
func readHello(b []byte) (*hello, bool) {
	h := &hello{length: len(b), bodies: map[uint16][]byte{}}
	s := cryptobyte.String(b)
	var kind uint8
	var body, session, suites, methods, extensions cryptobyte.String
	if !s.ReadUint8(&kind) || kind != 1 || !s.ReadUint24LengthPrefixed(&body) || !body.Skip(2+32) ||
		!body.ReadUint8LengthPrefixed(&session) || !body.ReadUint16LengthPrefixed(&suites) ||
		!body.ReadUint8LengthPrefixed(&methods) || !body.ReadUint16LengthPrefixed(&extensions) {
		return nil, false
	}
	h.session, h.suites = len(session), fmt.Sprintf("%x", []byte(suites))
	var order []string
	for !extensions.Empty() {
		var n uint16
		var x cryptobyte.String
		if !extensions.ReadUint16(&n) || !extensions.ReadUint16LengthPrefixed(&x) {
			return nil, false
		}
		order = append(order, fmt.Sprint(n))
		h.bodies[n] = x
	}
	h.extensions = strings.Join(order, " ")
	name := cryptobyte.String(h.bodies[extName])
	var list, host cryptobyte.String
	if name.ReadUint16LengthPrefixed(&list) && list.Skip(1) && list.ReadUint16LengthPrefixed(&host) {
		h.name = string(host)
	}
	return h, true
}

// fixed is the length without what the random name adds to it.
func (h *hello) fixed() int {
	if _, padded := h.bodies[extPadding]; padded {
		return h.length
	}
	return h.length - len(h.name)
}

// label returns the random part of the name.
func (h *hello) label() string {
	return strings.TrimSuffix(strings.TrimPrefix(h.name, "www."), ".com")
}

// shares returns the groups of the key shares, and the length of each.
func (h *hello) shares() string {
	s := cryptobyte.String(h.bodies[extShares])
	var list cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&list) {
		return "none"
	}
	var out []string
	for !list.Empty() {
		var group uint16
		var key cryptobyte.String
		if !list.ReadUint16(&group) || !list.ReadUint16LengthPrefixed(&key) {
			return "malformed"
		}
		out = append(out, fmt.Sprintf("%04x:%d", group, len(key)))
	}
	return strings.Join(out, " ")
}
