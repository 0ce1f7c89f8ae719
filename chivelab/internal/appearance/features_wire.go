package appearance

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// hellos gives a function of every ClientHello of a client.
func hellos(f func(*hello) string) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, k := range v.conns {
			h, ok := readHello(k.hello)
			if !ok {
				out = append(out, "no ClientHello")
				continue
			}
			out = append(out, f(h))
		}
		return out
	}
}

func extension(n uint16) func(*view) []string {
	return hellos(func(h *hello) string { return fmt.Sprintf("%x", h.bodies[n]) })
}

func wireFeatures() []feature {
	return []feature{
		{"hello-suites", onWire, "the ClientHello's cipher suites", same{}, hellos(func(h *hello) string { return h.suites })},
		{"hello-versions", onWire, "its versions of TLS", same{}, extension(extVersions)},
		{"hello-extensions", onWire, "its extensions, in order", same{}, hellos(func(h *hello) string { return h.extensions })},
		{"hello-groups", onWire, "its groups", same{}, extension(extGroups)},
		{"hello-shares", onWire, "its key shares, with their lengths", same{}, hellos((*hello).shares)},
		{"hello-signatures", onWire, "its signature algorithms", same{}, extension(extSignatures)},
		{"hello-session", onWire, "the length of its session ID", same{}, hellos(func(h *hello) string { return fmt.Sprint(h.session) })},
		{"hello-length", onWire, "its length, without the random name unless it is padded", same{}, hellos(func(h *hello) string { return fmt.Sprint(h.fixed()) })},
		{"hello-name", onWire, "the length of the random part of its server name", sample{N: 16, D: 0.7}, hellos(func(h *hello) string { return fmt.Sprint(len(h.label())) })},
		{"record-finished", onWire, "the first encrypted record's size: the end of TLS's handshake", same{}, nthRecord(0)},
		{"record-versions", onWire, "the second's: VERSIONS", same{}, nthRecord(1)},
		{"record-netinfo", onWire, "whether the third, with NETINFO, usually has cells besides: those of the circuits that wait for the link", usual{}, func(v *view) []string {
			var out []string
			for _, size := range nthRecord(2)(v) { // how many circuits wait is luck
				out = append(out, yes(size != fmt.Sprint(cell.Len+recordOverhead)))
			}
			return out
		}},
		{"records-largest", onWire, "the largest record of an upload", same{}, func(v *view) []string {
			most := 0
			for _, r := range v.upload() {
				most = max(most, r.size)
			}
			return one("%d", most)
		}},
		{"records-cut", onWire, "whether records of an upload end inside a cell", share{N: 20, Within: 0.35}, func(v *view) []string {
			var out []string
			for _, r := range v.upload() {
				out = append(out, yes((r.size-recordOverhead)%cell.Len != 0))
			}
			return out
		}},
		{"link-family", onWire, "the families of the addresses that links go to: every second relay has both", same{}, func(v *view) []string {
			var out []string
			for _, k := range v.conns {
				out = append(out, map[bool]string{true: "IPv6", false: "IPv4"}[k.to.Addr().Is6()])
			}
			return out
		}},
		{"keep-alive", onWire, "whether TCP asks if the peer is alive", same{}, func(v *view) []string { return []string{yes(v.keepAlive)} }},
		{"close", onWire, "how connections usually end at SIGTERM", usual{}, func(v *view) []string {
			var out []string
			for _, k := range v.conns {
				if !k.ended.IsZero() && k.ended.After(v.at(markTerm)) {
					out = append(out, k.how)
				}
			}
			return out
		}},
	}
}

// recordOverhead is what TLS 1.3 adds to a record's content: its type, and the tag.
const recordOverhead = 17

// nthRecord gives the size of the n-th record of each connection.
func nthRecord(n int) func(*view) []string {
	return func(v *view) []string {
		var out []string
		for _, k := range v.conns {
			if len(k.records) > n {
				out = append(out, fmt.Sprint(k.records[n].size))
			}
		}
		return out
	}
}

// upload returns the records of the time of an upload, of the connections with the most of them.
func (v *view) upload() []record {
	from := v.lastBefore(markClosed, markOnion)
	var most []record
	for _, k := range v.conns {
		var rs []record
		for _, r := range k.records {
			if r.at.After(from) && r.at.Before(v.at(markOnion)) {
				rs = append(rs, r)
			}
		}
		if len(rs) > len(most) {
			most = rs
		}
	}
	return most
}

// lastBefore returns the time of the last mark of a name before another mark.
func (v *view) lastBefore(name, before string) (at time.Time) {
	for _, m := range v.marks {
		switch m.name {
		case name:
			at = m.at
		case before:
			return at
		}
	}
	return at
}
