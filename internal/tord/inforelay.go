package tord

import (
	"encoding/hex"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/relay"
)

// noServer is the error of what only a relay has. C tor's code differs from key to key.
func noServer(code int) error { return ctlwire.Errorf(code, "Not running in server mode") }

// relayStatus returns the state of the relay; the zero value if there is none.
func (q *query) relayStatus() relay.Status {
	if q.hosted == nil {
		return relay.Status{}
	}
	return q.hosted.Relay().Status()
}

// address answers address, address/v4 and address/v6: where others reach the relay.
func address(six bool) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		if q.hosted != nil {
			for _, a := range q.hosted.Relay().Addrs() {
				if ip := a.Addr().Unmap(); ip.Is6() == six && !ip.IsUnspecified() {
					return text(ip.String())
				}
			}
		}
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Address unknown")
	}
}

func (q *query) fingerprint() (control.Answer, error) {
	if q.hosted == nil {
		return control.Answer{}, noServer(ctlwire.Failed)
	}
	rsa, _ := q.hosted.Relay().Fingerprint()
	return text(strings.ToUpper(rsa))
}

// exitPolicy answers exit-policy/*.
func (q *query) exitPolicy() (control.Answer, error) {
	if q.hosted == nil {
		return control.Answer{}, noServer(ctlwire.Unknown)
	}
	policy := q.hosted.Inner().Policy()
	if q.rest == "reject-private/relay" {
		if !q.plan.conf.on("ExitPolicyRejectPrivate") {
			return text("")
		}
		var rules netdoc.ExitPolicy
		for _, r := range policy {
			if !r.Accept && r.Net.IsValid() && r.Ports == netdoc.AllPorts {
				rules = append(rules, r)
			}
		}
		return policyLines(rules, true, true)
	}
	four, six := q.rest != "ipv6", q.rest != "ipv4"
	if q.rest != "full" && four && six {
		return control.Answer{}, errNoKey
	}
	if !policy.Accepts() {
		return text("reject *:*")
	}
	return policyLines(policy, four, six)
}

func policyLines(p netdoc.ExitPolicy, four, six bool) (control.Answer, error) {
	var lines []string
	for _, r := range p {
		isSix := r.Six || r.Net.IsValid() && r.Net.Addr().Is6()
		if isSix && !six || !isSix && !four {
			continue
		}
		s := r.String()
		if isSix { // as in a descriptor that has both families
			s = strings.Replace(strings.Replace(s, " ", "6 ", 1), "*6:", "*:", 1)
		}
		lines = append(lines, s)
	}
	if len(lines) == 1 {
		return text(lines[0])
	}
	return listed(func() string { return strings.Join(lines, "\n") })
}

// rejectPrivate answers exit-policy/reject-private/default: the networks that relays let nobody into.
func rejectPrivate(*query) (control.Answer, error) {
	var rules []string
	for _, r := range exit.RejectPrivate() {
		rules = append(rules, r.String())
	}
	return text(strings.Join(rules, ","))
}

// accounting answers accounting/*.
func (q *query) accounting() (control.Answer, error) {
	s := q.relayStatus()
	date := func(t time.Time) (control.Answer, error) {
		if t.IsZero() {
			t = time.Unix(0, 0)
		}
		return text(date(t))
	}
	var read, written uint64
	if q.hosted != nil {
		read, written, _ = q.hosted.Inner().Counted()
	}
	switch q.rest {
	case "enabled":
		return flag(s.AccountingMax > 0)
	case "hibernating":
		return text(hibernation(s.Hibernation))
	case "bytes":
		return text(fmt.Sprint(read, " ", written))
	case "bytes-left":
		left := func(used uint64) uint64 { return s.AccountingMax - min(used, s.AccountingMax) }
		in, out := left(read), left(written)
		switch strings.ToLower(q.plan.conf.one("AccountingRule")) {
		case "sum":
			in, out = left(s.AccountingUsed), left(s.AccountingUsed)
		case "in":
			out = s.AccountingMax
		case "out":
			in = s.AccountingMax
		}
		return text(fmt.Sprint(in, " ", out))
	case "interval-start":
		return date(s.AccountingStart)
	case "interval-wake":
		return date(s.AccountingWake)
	case "interval-end":
		return date(s.AccountingEnd)
	}
	return control.Answer{}, errNoKey
}

// reachable answers status/reachability-succeeded/or. As in C tor, what has no port need not be reached.
func (q *query) reachable() bool { return q.hosted == nil || q.relayStatus().Reachable }

// freshDescriptors answers status/fresh-relay-descs.
func (q *query) freshDescriptors() (control.Answer, error) {
	if q.hosted == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Only relays have descriptors")
	}
	d, e, err := q.hosted.Inner().Describe()
	if err != nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Cannot generate router descriptor")
	}
	return listed(func() string { return string(d.Text) + string(e.Text) })
}

// descriptor answers desc/id/* and desc/name/*: of this relay, and of others as far as it keeps them.
func descriptor(by string) func(*query) (control.Answer, error) {
	return func(q *query) (control.Answer, error) {
		if q.hosted == nil {
			return noDescriptors(by)(q)
		}
		id, ok := q.named(by)
		if !ok {
			return control.Answer{}, errNoKey
		}
		if b := q.hosted.Inner().DescriptorText(id); b != nil {
			return listed(func() string { return string(b) })
		}
		return control.Answer{}, errNoKey
	}
}

// named returns the relay that a key names.
func (q *query) named(by string) (ident.RSAID, bool) {
	if by == "id" {
		digits, _, _ := strings.Cut(strings.TrimPrefix(q.rest, "$"), "~")
		digits, _, _ = strings.Cut(digits, "=")
		return fingerprint(digits)
	}
	if s := q.relayStatus(); strings.EqualFold(s.Nickname, q.rest) {
		return fingerprint(s.Fingerprint)
	}
	r, err := q.byName()
	if err != nil {
		return ident.RSAID{}, false
	}
	return r.RSA(), true
}

func fingerprint(digits string) (id ident.RSAID, ok bool) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return ident.RSAID(b), true
}

// recentDescriptors answers desc/all-recent.
func (q *query) recentDescriptors() (control.Answer, error) {
	if q.hosted == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		for b := range q.hosted.Inner().Descriptors {
			for l := range strings.Lines(string(b)) {
				if !yield(strings.TrimSuffix(l, "\n")) {
					return
				}
			}
		}
	})
}

// fetchesDescriptors answers desc/download-enabled.
func (q *query) fetchesDescriptors() (control.Answer, error) {
	return flag(q.hosted != nil && !q.relayStatus().Bridge && q.plan.conf.on("DirCache"))
}

// dirServer answers dir/server/*, as the relay's port for directories does.
func (q *query) dirServer() (control.Answer, error) {
	switch kind, list, _ := strings.Cut(q.rest, "/"); {
	case q.rest == "all":
		return q.recentDescriptors()
	case q.rest == "authority" && q.hosted == nil:
		return text("")
	case q.rest == "authority":
		rsa, _ := q.hosted.Relay().Fingerprint()
		list = rsa
		fallthrough
	case kind == "fp":
		if q.hosted == nil {
			return text("")
		}
		return streamed(q.descriptorsOf(list))
	}
	return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "Key not recognized")
}

// descriptorsOf yields the lines of the descriptors of relays, each once.
func (q *query) descriptorsOf(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[ident.RSAID]bool{}
		for digits := range strings.SplitSeq(list, "+") {
			id, ok := fingerprint(digits)
			if !ok || seen[id] {
				continue
			}
			seen[id] = true
			for l := range strings.Lines(string(q.hosted.Inner().DescriptorText(id))) {
				if !yield(strings.TrimSuffix(l, "\n")) {
					return
				}
			}
		}
	}
}

// plainConsensus answers dir/status-vote/current/consensus.
func (q *query) plainConsensus() (control.Answer, error) {
	if q.hosted != nil {
		if b := q.hosted.Inner().PlainConsensus(); b != nil {
			return listed(func() string { return string(b) })
		}
	}
	return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, noConsensus)
}

// bridgeLines answers chive/bridge-lines: what the clients of this bridge need.
func (q *query) bridgeLines() (control.Answer, error) {
	if q.hosted == nil {
		return text("")
	}
	lines := q.hosted.lines.Load()
	if lines == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "The transports do not run yet")
	}
	return listed(func() string { return strings.Join(*lines, "\n") })
}

// relayLinks yields the lines of orconn-status for the relay's links.
func (q *query) relayLinks(yield func(string) bool) {
	if q.hosted == nil {
		return
	}
	for _, id := range q.hosted.Inner().Linked() {
		name := client.Router{ID: id}
		if d := q.directory(); d != nil {
			if r, ok := d.Lookup(id); ok {
				name.Name = r.Nickname()
			}
		}
		if !yield(router(name) + " CONNECTED") {
			return
		}
	}
}

// relayPorts returns the addresses of the relay's ports of a kind.
func (q *query) relayPorts(kind string) (out []string) {
	if q.hosted == nil {
		return nil
	}
	or, dir := q.hosted.Inner().Listening()
	if kind == "dir" {
		or = dir
	}
	for _, a := range or {
		out = append(out, ctlwire.Quote(wildcard(a)))
	}
	return out
}

// wildcard writes the address of all of IPv4 as C tor does, also if the port is one of both families.
func wildcard(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
}
