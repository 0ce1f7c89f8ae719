package netdoc

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// RouterStatus is one relay's entry in a consensus or a vote (dir-spec,
// "router status entry").
type RouterStatus struct {
	Nickname   string
	RSA        ident.RSAID
	Descriptor [20]byte // SHA-1 digest of the router descriptor; not in a microdesc consensus
	Microdesc  [32]byte // SHA-256 digest of the microdescriptor; only in a microdesc consensus
	Published  time.Time
	Addr       netip.Addr // IPv4
	ORPort     uint16
	DirPort    uint16           // zero: none
	ORAddrs    []netip.AddrPort // "a" lines
	Flags      Flags
	Version    string // "v" line
	Proto      string // "pr" line as written
	Protocols  protover.Set

	HasBandwidth bool
	Bandwidth    uint32 // kilobytes per second, as voted
	Unmeasured   bool   // there were too few measurements of the bandwidth

	Policy *PortPolicy // "p" line; nil when absent

	// Only in votes.
	HasMeasured bool
	Measured    uint32
	Ed          ident.Ed25519ID // zero: "none" or absent
	EdListed    bool            // there is an "id ed25519" line
	Stats       string          // "stats" line's arguments
	Microdescs  []string        // "m" lines: METHODS ALGORITHM=DIGEST...
}

// Bounds on a relay's "a" lines, and on its "m" lines in a vote.
const (
	maxORAddrs    = 8
	maxMicroLines = 64
)

// parseR reads an "r" line. A microdesc consensus has no descriptor digest.
func (rs *RouterStatus) parseR(a Args, f Flavor) error {
	nick, err := a.need("nickname")
	if err != nil {
		return err
	}
	if !validNickname(nick) {
		return fault.New(fault.Directory, "nickname %q", clip(nick))
	}
	rs.Nickname = string(nick)
	if err := a.base64("identity", rs.RSA[:]); err != nil {
		return err
	}
	if f != FlavorMicrodesc {
		if err := a.base64("descriptor digest", rs.Descriptor[:]); err != nil {
			return err
		}
	}
	if rs.Published, err = a.time(); err != nil {
		return err
	}
	if rs.Addr, err = a.addr4(); err != nil {
		return err
	}
	or, err := a.uint("ORPort", 65535)
	if err != nil {
		return err
	}
	dir, err := a.uint("DirPort", 65535)
	rs.ORPort, rs.DirPort = uint16(or), uint16(dir)
	return err
}

func validNickname(b []byte) bool {
	for _, c := range b {
		if !isKeywordChar(c) || c == '-' {
			return false
		}
	}
	return len(b) >= 1 && len(b) <= 19
}

// parseItem reads one line after the "r" line.
func (rs *RouterStatus) parseItem(it *Item, f Flavor, in *Interner) (err error) {
	a := it.Args
	switch string(it.Keyword) {
	case "a":
		ap, err := a.addrPort()
		if err == nil && len(rs.ORAddrs) < maxORAddrs {
			rs.ORAddrs = append(rs.ORAddrs, ap)
		}
		return err
	case "s":
		rs.Flags, err = parseFlags(a)
	case "v":
		rs.Version = in.text(a.line())
	case "pr":
		rs.Proto = in.text(a.line())
		// The relay chose the text, and authorities copy it: a mistake in it must not cost
		// the other relays' entries. Such a relay supports nothing.
		rs.Protocols, _ = in.proto(a.line())
	case "w":
		err = rs.parseW(a)
	case "p":
		rs.Policy, err = in.policy(Args(a.Rest()))
	case "m":
		if f == FlavorMicrodesc {
			return a.base64("microdescriptor digest", rs.Microdesc[:])
		}
		if len(rs.Microdescs) == maxMicroLines {
			return fault.New(fault.Resource, "more than %d", maxMicroLines)
		}
		rs.Microdescs = append(rs.Microdescs, string(a.Rest()))
	case "id":
		return rs.parseID(a)
	case "stats":
		rs.Stats = string(a.Rest())
	}
	return err
}

func (rs *RouterStatus) parseID(a Args) error {
	kind, _ := a.Next()
	if string(kind) != "ed25519" {
		return nil // a kind of identity that is not defined yet
	}
	rs.EdListed = true
	w, err := a.need("identity")
	if err != nil || string(w) == "none" {
		return err
	}
	return decodeBase64("Ed25519 identity", rs.Ed[:], w)
}

func (rs *RouterStatus) parseW(a Args) error {
	for w, ok := a.Next(); ok; w, ok = a.Next() {
		name, num := cutByte(w, '=')
		if num == nil {
			return fault.New(fault.Directory, "%q is not NAME=NUMBER", clip(w))
		}
		switch string(name) {
		case "Bandwidth":
			v, err := parseUint(num, "Bandwidth", 1<<32-1)
			if err != nil {
				return err
			}
			rs.Bandwidth, rs.HasBandwidth = uint32(v), true
		case "Measured":
			v, err := parseUint(num, "Measured", 1<<32-1)
			if err != nil {
				return err
			}
			rs.Measured, rs.HasMeasured = uint32(v), true
		case "Unmeasured":
			rs.Unmeasured = bytes.Equal(num, []byte("1"))
		}
	}
	return nil
}

// append writes the entry in the order that C tor writes it.
func (rs *RouterStatus) append(dst []byte, f Flavor, vote bool) []byte {
	b64 := base64.RawStdEncoding
	dst = append(append(dst, "r "...), rs.Nickname...)
	dst = b64.AppendEncode(append(dst, ' '), rs.RSA[:])
	if f != FlavorMicrodesc {
		dst = b64.AppendEncode(append(dst, ' '), rs.Descriptor[:])
	}
	dst = appendTime(append(dst, ' '), rs.Published)
	dst = rs.Addr.AppendTo(append(dst, ' '))
	dst = appendLine(dst, "", itoa(rs.ORPort), itoa(rs.DirPort))
	for _, ap := range rs.ORAddrs {
		dst = append(ap.AppendTo(append(dst, "a "...)), '\n')
	}
	if f == FlavorMicrodesc {
		dst = append(b64.AppendEncode(append(dst, "m "...), rs.Microdesc[:]), '\n')
	}
	dst = appendLine(dst, "s", strings.Fields(rs.Flags.String())...)
	if rs.Version != "" {
		dst = appendLine(dst, "v", rs.Version)
	}
	dst = appendLine(dst, "pr", rs.Proto) // also if it is empty: C tor refuses documents in which a relay has none
	dst = rs.appendW(dst)
	if rs.Policy != nil {
		dst = appendLine(dst, "p", rs.Policy.String())
	}
	if !vote {
		return dst
	}
	if rs.EdListed && rs.Ed.IsZero() {
		dst = appendLine(dst, "id", "ed25519", "none")
	} else if rs.EdListed {
		dst = appendLine(dst, "id", "ed25519", rs.Ed.String())
	}
	if rs.Stats != "" {
		dst = appendLine(dst, "stats", rs.Stats)
	}
	for _, m := range rs.Microdescs {
		dst = appendLine(dst, "m", m)
	}
	return dst
}

func (rs *RouterStatus) appendW(dst []byte) []byte {
	if !rs.HasBandwidth {
		return dst
	}
	words := []string{"Bandwidth=" + itoa(rs.Bandwidth)}
	if rs.HasMeasured {
		words = append(words, "Measured="+itoa(rs.Measured))
	}
	if rs.Unmeasured {
		words = append(words, "Unmeasured=1")
	}
	return appendLine(dst, "w", words...)
}
