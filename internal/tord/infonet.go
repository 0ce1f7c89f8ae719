package tord

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// streamed returns an answer whose lines are made as they are written.
func streamed(l iter.Seq[string]) (control.Answer, error) { return control.Answer{Lines: l}, nil }

// inner returns the client; nil: there is none.
func (q *query) inner() *client.Client {
	if q.node == nil {
		return nil
	}
	return q.node.Inner()
}

// directory returns the newest directory; nil: there is none.
func (q *query) directory() *netdir.Directory {
	if c := q.inner(); c != nil {
		return c.Directory()
	}
	if q.hosted != nil {
		return q.hosted.Inner().Directory()
	}
	return nil
}

// texts are the documents behind a directory; nil: there are none.
type texts interface {
	ConsensusText() (iter.Seq[string], error)
	MicrodescText(want map[[32]byte]bool) iter.Seq[string]
}

func (q *query) texts() texts {
	if c := q.inner(); c != nil {
		return c
	}
	if q.hosted != nil {
		return q.hosted.Inner()
	}
	return nil
}

// statuses writes relays as C tor's router status entries.
func statuses(relays iter.Seq[netdir.Relay]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range relays {
			for _, l := range statusEntry(r) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// statusEntry is one relay. The time is none: consensuses with microdescriptors have no times of descriptors, and C tor
// writes this one.
func statusEntry(r netdir.Relay) []string {
	id, md, v4 := r.RSA(), r.MicrodescDigest(), r.IPv4()
	out := []string{fmt.Sprintf("r %s %s %s 2038-01-01 00:00:00 %s %d %d", r.Nickname(), base64.RawStdEncoding.EncodeToString(id[:]), base64.RawStdEncoding.EncodeToString(md[:20]), v4.Addr(), v4.Port(), r.DirPort())}
	if six, ok := r.IPv6(); ok {
		out = append(out, "a "+six.String())
	}
	return append(out, strings.TrimRight("s "+r.Flags().String(), " "), fmt.Sprintf("w Bandwidth=%d", r.Bandwidth()))
}

func one(r netdir.Relay) iter.Seq[netdir.Relay] {
	return func(yield func(netdir.Relay) bool) { yield(r) }
}

// nsAll answers ns/all.
func (q *query) nsAll() (control.Answer, error) {
	d := q.directory()
	if d == nil {
		return text("")
	}
	return streamed(statuses(d.All()))
}

// byID finds the relay of a key with a fingerprint.
func (q *query) byID() (netdir.Relay, error) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(q.rest, "$"), "~")
	digits, _, _ = strings.Cut(digits, "=")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(ident.RSAID{}) {
		return netdir.Relay{}, ctlwire.Errorf(ctlwire.Failed, "Data not decodeable as hex")
	}
	d := q.directory()
	if d == nil {
		return netdir.Relay{}, errNoKey
	}
	r, ok := d.Lookup(ident.RSAID(b))
	if !ok {
		return netdir.Relay{}, errNoKey
	}
	return r, nil
}

// byName finds the relay of a key with a name.
func (q *query) byName() (netdir.Relay, error) {
	d := q.directory()
	if d == nil {
		return netdir.Relay{}, errNoKey
	}
	r, err := client.FindRelay(d, q.rest)
	if err != nil {
		return netdir.Relay{}, errNoKey
	}
	return r, nil
}

// relayKey answers a key for one relay.
func relayKey(find func(*query) (netdir.Relay, error), answer func(*query, netdir.Relay) (control.Answer, error)) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		r, err := find(q)
		if err != nil {
			return control.Answer{}, err
		}
		return answer(q, r)
	}
}

func (q *query) nsOne(r netdir.Relay) (control.Answer, error) { return streamed(statuses(one(r))) }

func (q *query) mdOne(r netdir.Relay) (control.Answer, error) {
	if !r.HasMicrodesc() {
		return control.Answer{}, errNoKey
	}
	return streamed(q.texts().MicrodescText(map[[32]byte]bool{r.MicrodescDigest(): true}))
}

// mdAll answers md/all.
func (q *query) mdAll() (control.Answer, error) {
	d := q.directory()
	if d == nil {
		return text("")
	}
	c := q.texts()
	return streamed(func(yield func(string) bool) {
		want := map[[32]byte]bool{}
		for r := range d.All() {
			if r.HasMicrodesc() {
				want[r.MicrodescDigest()] = true
			}
		}
		c.MicrodescText(want)(yield)
	})
}

// nsPurpose answers ns/purpose/*: bridges have no entries.
func (q *query) nsPurpose() (control.Answer, error) {
	if q.rest != "bridge" && q.rest != "general" && q.rest != "controller" {
		return control.Answer{}, errNoKey
	}
	return text("")
}

const noConsensus = "Could not open cached consensus. Make sure FetchUselessDescriptors is set to 1."

// document answers with the consensus.
func (q *query) document() (control.Answer, error) {
	c := q.texts()
	if c == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, noConsensus)
	}
	l, err := c.ConsensusText()
	if err != nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, noConsensus)
	}
	return streamed(l)
}

// noDescriptors answers desc/id/* and desc/name/* as C tor does without them.
func noDescriptors(by string) func(*query) (control.Answer, error) {
	return func(*query) (control.Answer, error) {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Unknown, "We fetch microdescriptors, not router descriptors. You'll need to use md/%s/* instead of desc/%s/*.", by, by)
	}
}

// country answers ip-to-country/*.
func (q *query) country() (control.Answer, error) {
	c := q.inner()
	if q.rest == "ipv4-available" || q.rest == "ipv6-available" {
		return flag(c != nil && c.CountryTable() != nil)
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(q.rest, "["), "]"))
	if err != nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Invalid address family")
	}
	if c == nil || c.CountryTable() == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "GeoIP data not loaded")
	}
	return text(cmp.Or(c.CountryTable().Country(netaddr.Plain(a)), "??"))
}

// sharedRandom answers sr/*, with nothing if there is no value.
func sharedRandom(current bool) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		d := q.directory()
		if d == nil {
			return text("")
		}
		v, now := d.SharedRandom()
		if current {
			v = now
		}
		if v == nil {
			return text("")
		}
		return text(base64.StdEncoding.EncodeToString(v.Value[:]))
	}
}

func (q *query) circuits() (control.Answer, error) {
	c := q.inner()
	if c == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		for _, r := range c.Circuits() {
			if !yield(circuitLine(&r)) {
				return
			}
		}
	})
}

func (q *query) streams() (control.Answer, error) {
	c := q.inner()
	if c == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		for _, r := range c.Streams() {
			if !yield(streamStatus(r)) {
				return
			}
		}
	})
}

func (q *query) links() (control.Answer, error) {
	c := q.inner()
	if c == nil && q.hosted == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		if c != nil {
			for _, r := range c.Links() {
				if !yield(router(c.NameOf(r.Relay)) + " CONNECTED") {
					return
				}
			}
		}
		q.relayLinks(yield)
	})
}

// mappings answers address-mappings/*.
func mappings(config, controlled bool) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		return streamed(func(yield func(string) bool) {
			if config {
				for _, v := range q.plan.conf["MapAddress"] {
					if f := strings.Fields(v); len(f) == 2 && !yield(f[0]+" "+f[1]+" NEVER") {
						return
					}
				}
			}
			c := q.inner()
			if !controlled || c == nil {
				return
			}
			for _, r := range c.Controlled() {
				if !yield(oneWord(r.From) + " " + oneWord(r.To) + " NEVER") {
					return
				}
			}
		})
	}
}

// hops answers chive/circuits: what protects each hop of each circuit.
func (q *query) hops() (control.Answer, error) {
	c := q.inner()
	if c == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		for _, r := range c.Circuits() {
			if r.Step != client.CircuitBuilt {
				continue
			}
			for i, h := range r.Hops {
				s := fmt.Sprintf("%d HOP=%d HANDSHAKE=%s LAYER=%s", r.ID, i+1, h.Handshake, h.Layer)
				if !h.IsZero() {
					s += fmt.Sprintf(" PQ=%v CARRIAGE=%c", h.Set, rune(h.Carriage))
				}
				if !yield(s) {
					return
				}
			}
		}
	})
}

// memory answers chive/memory.
func (q *query) memory() (control.Answer, error) {
	c := q.inner()
	if c == nil {
		return text("HELD=0 BOUND=0")
	}
	held, bound := c.Memory()
	return text(fmt.Sprintf("HELD=%d BOUND=%d", held, bound))
}
