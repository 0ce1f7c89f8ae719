package tord

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/daemon"
)

// query is what a key of GETINFO is answered from.
type query struct {
	*tor
	plan   *plan
	node   *daemon.Hosted // nil: there is no client
	hosted *hosted        // nil: there is no relay
	rest   string         // of the key, after what the row's name has
}

// infoKey is a key of GETINFO, or, with "*" at the end, all that begin with it.
type infoKey struct {
	name, help string
	get        func(*query) (control.Answer, error)
}

// allInfoKeys are the keys. A function makes them, because one of them lists them.
var allInfoKeys []infoKey

func init() {
	allInfoKeys = []infoKey{
		{"accounting/*", "The limit of a relay's traffic: enabled, hibernating, bytes, bytes-left, interval-start, interval-wake, interval-end.", (*query).accounting},
		{"address", "The address at which others reach this relay, of IPv4.", address(false)},
		{"address/v4", "The same.", address(false)},
		{"address/v6", "The same, of IPv6.", address(true)},
		{"address-mappings/all", "Names that stand for others.", mappings(true, true)},
		{"address-mappings/config", "The same, by the configuration.", mappings(true, false)},
		{"address-mappings/cache", "The same, by answers of exits: none are kept.", word("")},
		{"address-mappings/control", "The same, by controllers.", mappings(false, true)},
		{"bw-event-cache", "The numbers of the last BW events, at most 300.", func(q *query) (control.Answer, error) { return text(q.bandwidths.text()) }},
		{"chive/bridge-lines", "What the clients of this bridge need, a line for each transport.", (*query).bridgeLines},
		{"chive/circuits", "What protects each hop of each circuit.", (*query).hops},
		{"chive/memory", "Bytes that others make the client hold, and their bound.", (*query).memory},
		{"chive/onions", "The state of each onion service.", (*query).onions},
		{"chive/post-quantum", "Of how many circuits all hops have post-quantum protection, some have, or none has.", (*query).postQuantum},
		{"chive/relay/accounting", "The state of a relay's accounting.", ofRelay(relayAccounting)},
		{"chive/relay/circuits", "How many circuits and streams a relay has, and how many circuits it has begun and refused.", ofRelay(relayCircuits)},
		{"chive/relay/consensus", "What the consensus says of the relay, and which authorities have its descriptor.", ofRelay(relayConsensus)},
		{"chive/relay/links", "How many links a relay has, with relays and with others, and what they carry.", ofRelay(relayLinks)},
		{"chive/relay/memory", "Bytes that others make a relay hold, and their bound.", ofRelay(relayMemory)},
		{"chive/relay/onions", "The descriptors of onion services that a relay keeps as a directory.", ofRelay(relayOnions)},
		{"circuit-status", "The circuits.", (*query).circuits},
		{"config-can-saveconf", "Whether SAVECONF can write the configuration.", (*query).canSave},
		{"config-defaults-file", "The file with default values.", func(q *query) (control.Answer, error) { return text(q.src.line.defaults) }},
		{"config-file", "The torrc.", func(q *query) (control.Answer, error) { return text(q.src.file) }},
		{"config-text", "What SAVECONF would write.", func(q *query) (control.Answer, error) { return listed(q.plan.conf.text) }},
		{"config/defaults", "The default values of options.", func(*query) (control.Answer, error) { return listed(defaultsList) }},
		{"config/names", "The options and their types.", func(*query) (control.Answer, error) { return listed(namesList) }},
		{"consensus/fresh-until", "Until when the consensus is fresh.", (*query).consensus},
		{"consensus/packages", "The programs that the consensus names.", (*query).packages},
		{"consensus/valid-after", "From when on the consensus is valid.", (*query).consensus},
		{"consensus/valid-until", "Until when the consensus is valid.", (*query).consensus},
		{"current-time/local", "The time of this machine, in its time zone.", func(*query) (control.Answer, error) { return text(time.Now().Format(timeForm)) }},
		{"current-time/utc", "The time of this machine, in UTC.", func(*query) (control.Answer, error) { return text(date(time.Now())) }},
		{"desc/all-recent", "Descriptors of other relays, which a relay keeps for others.", (*query).recentDescriptors},
		{"desc/download-enabled", "Whether descriptors of relays are fetched: by a relay that serves the directory.", (*query).fetchesDescriptors},
		{"desc/id/*", "A relay's descriptor, by its fingerprint: this relay's, and those that it keeps for others.", descriptor("id")},
		{"desc/name/*", "The same, by its nickname.", descriptor("name")},
		{"dir/server/*", "Descriptors as this relay serves them: authority (its own), fp/FINGERPRINT, all.", (*query).dirServer},
		{"dir/status-vote/current/consensus", "The consensus without microdescriptors, which a relay keeps for others.", (*query).plainConsensus},
		{"dir/status-vote/current/consensus-microdesc", "The consensus.", (*query).document},
		{"dormant", "Whether the client builds no circuits ahead: it is dormant, or was not used for long.", (*query).dormant},
		{"entry-guards", "The client's guards.", (*query).guards},
		{"events/names", "The events that SETEVENTS takes.", word(strings.Join(control.EventNames(), " "))},
		{"exit-policy/default", "The exit policy of relays that set none.", defaultPolicy},
		{"exit-policy/reject-private/default", "The networks that no relay lets streams into.", rejectPrivate},
		{"exit-policy/*", "The exit policy of this relay: full, ipv4, ipv6, reject-private/relay.", (*query).exitPolicy},
		{"features/names", "What USEFEATURE takes.", word(strings.Join(control.Features, " "))},
		{"fingerprint", "The fingerprint of this relay.", (*query).fingerprint},
		{"info/names", "These keys.", func(q *query) (control.Answer, error) { return listed(func() string { return infoList(q.infoKeys()) }) }},
		{"ip-to-country/*", "The country of an address.", (*query).country},
		{"limits/max-mem-in-queues", "The bound of what others can make the client hold, in bytes.", (*query).limit},
		{"md/all", "The microdescriptors.", (*query).mdAll},
		{"md/download-enabled", "Whether microdescriptors are fetched: always.", word("1")},
		{"md/id/*", "A relay's microdescriptor, by its fingerprint.", relayKey((*query).byID, (*query).mdOne)},
		{"md/name/*", "A relay's microdescriptor, by its nickname.", relayKey((*query).byName, (*query).mdOne)},
		{"net/listeners/*", "The addresses of ports, by kind.", (*query).listeners},
		{"network-liveness", "Whether the client can carry traffic.", (*query).liveness},
		{"ns/all", "The relays of the consensus.", (*query).nsAll},
		{"ns/id/*", "A relay of the consensus, by its fingerprint.", relayKey((*query).byID, (*query).nsOne)},
		{"ns/name/*", "A relay of the consensus, by its nickname.", relayKey((*query).byName, (*query).nsOne)},
		{"ns/purpose/*", "Relays of another purpose: none have an entry.", (*query).nsPurpose},
		{"hs/client/desc/id/*", "The descriptor of an onion service that was fetched.", (*query).fetched},
		{"hs/service/desc/id/*", "The descriptor of an onion service of this program.", (*query).served},
		// Package control answers these two: it knows whose the services are.
		{"onions/current", "The onion services of this controller.", word("")},
		{"onions/detached", "The onion services of no controller.", word("")},
		{"orconn-status", "The links to relays.", (*query).links},
		{"process/descriptor-limit", "How many files this process may have open.", descriptorLimit},
		{"process/pid", "The number of this process.", func(*query) (control.Answer, error) { return text(strconv.Itoa(os.Getpid())) }},
		{"process/uid", "The number of the user of this process.", func(*query) (control.Answer, error) { return text(strconv.Itoa(os.Getuid())) }},
		{"process/user", "The name of the user of this process.", func(*query) (control.Answer, error) {
			u, err := currentUser()
			if err != nil {
				return control.Answer{}, nil
			}
			return text(u.Username)
		}},
		{"signal/names", "The signals that SIGNAL takes.", word(signalList())},
		{"sr/current", "The shared random value of the consensus.", sharedRandom(true)},
		{"sr/previous", "The one before.", sharedRandom(false)},
		{"status/bootstrap-phase", "How far the client has come.", (*query).bootstrap},
		{"status/circuit-established", "Whether the client can carry traffic.", (*query).established},
		{"status/clients-seen", "The clients of a bridge: they are not counted.", word(`TimeStarted="1970-01-01 00:00:00" CountrySummary= IPVersions=v4=0,v6=0`)},
		{"status/enough-dir-info", "Whether the client knows enough relays.", (*query).enough},
		{"status/fresh-relay-descs", "This relay's descriptor and extra-info document, as they would be now.", (*query).freshDescriptors},
		{"status/reachability-succeeded", "Whether others reach the ports of a relay: as in C tor, 1 where there are none.", func(q *query) (control.Answer, error) { return text("OR=" + yes(q.reachable()) + " DIR=1") }},
		{"status/reachability-succeeded/dir", "The same, of the DirPort: always 1, as in C tor.", word("1")},
		{"status/reachability-succeeded/or", "The same, of the ORPort.", func(q *query) (control.Answer, error) { return flag(q.reachable()) }},
		{"status/version/current", "What the consensus says of this version: nothing, as it lists C tor's.", (*query).versionStatus},
		{"status/version/recommended", "The versions of C tor that the consensus recommends.", (*query).recommended},
		{"stream-status", "The streams and lookups.", (*query).streams},
		{"traffic/read", "Bytes that the links to relays have brought.", func(q *query) (control.Answer, error) { in, _ := traffic(q.node, q.hosted); return number(in) }},
		{"traffic/written", "Bytes that the links to relays have taken.", func(q *query) (control.Answer, error) { _, out := traffic(q.node, q.hosted); return number(out) }},
		{"uptime", "Seconds since the start.", func(q *query) (control.Answer, error) { return number(uint64(time.Since(q.started) / time.Second)) }},
		{"version", "The version.", word(Version)},
	}
}

func text(s string) (control.Answer, error) { return control.Answer{Text: ctlwire.OneLine(s)}, nil }

func number(n uint64) (control.Answer, error) { return text(strconv.FormatUint(n, 10)) }

// listed returns the lines of a text that is made when it is written.
func listed(of func() string) (control.Answer, error) {
	return streamed(func(yield func(string) bool) {
		for l := range strings.Lines(of()) {
			if !yield(strings.TrimSuffix(l, "\n")) {
				return
			}
		}
	})
}

func word(s string) func(*query) (control.Answer, error) {
	return func(*query) (control.Answer, error) { return text(s) }
}

const timeForm = "2006-01-02 15:04:05"

func date(t time.Time) string { return t.UTC().Format(timeForm) }

func namesList() string {
	all := append([]*option{onionOptions}, allOptions()...)
	for _, g := range portGroups() {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *option) int { return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)) })
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, "%s %s\n", o.name, o.kind)
	}
	return b.String()
}

func defaultsList() string {
	var b strings.Builder
	for _, o := range allOptions() {
		if o.hasUsual {
			fmt.Fprintf(&b, "%s %s\n", o.name, ctlwire.Quote(o.usual))
		}
	}
	return b.String()
}

func infoList(keys []infoKey) string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s -- %s\n", k.name, k.help)
	}
	return b.String()
}

func signalList() string {
	var names []string
	for _, s := range control.Signals {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func (q *query) canSave() (control.Answer, error) {
	if q.src.line.named && q.src.line.file != "-" {
		return text("1")
	}
	return text("0")
}

// status returns the state of the client; ok is false if there is none.
func (q *query) status() (s chive.Status, ok bool) {
	if q.node == nil {
		return s, false
	}
	return q.node.Client().Status(), true
}

func (q *query) guards() (control.Answer, error) {
	c := q.inner()
	if c == nil {
		return text("")
	}
	return streamed(func(yield func(string) bool) {
		for _, g := range c.Status().Guards.Guards {
			// C tor's "down" and "unusable" have a time, which Chive does not tell.
			state := map[string]string{"yes": "up", "maybe": "never-connected"}[g.Reachable]
			if state == "" || !g.Listed || !g.Allowed || g.DisabledByPathBias {
				state = "unusable"
			}
			if !yield(router(client.Router{ID: g.ID.RSA, Name: g.Nickname}) + " " + state) {
				return
			}
		}
	})
}

func (q *query) consensus() (control.Answer, error) {
	s, _ := q.status()
	if d := q.directory(); q.node == nil && d != nil {
		s.Directory.ValidAfter, s.Directory.FreshUntil, s.Directory.ValidUntil = d.ValidAfter(), d.FreshUntil(), d.ValidUntil()
	}
	at := map[string]time.Time{"consensus/valid-after": s.Directory.ValidAfter, "consensus/fresh-until": s.Directory.FreshUntil, "consensus/valid-until": s.Directory.ValidUntil}[q.rest]
	if at.IsZero() {
		return control.Answer{}, errNoKey
	}
	return text(date(at))
}

// kinds are the kinds of ports that GETINFO knows, by Chive's words.
var kinds = map[string]string{"socks": "socks", "httptunnel": "http", "dns": "dns", "trans": "trans", "or": "", "dir": "", "extor": "", "natd": "", "metrics": "", "control": ""}

func (q *query) listeners() (control.Answer, error) {
	kind, ok := kinds[q.rest]
	if !ok {
		return control.Answer{}, errNoKey
	}
	var out []string
	if q.rest == "control" {
		for _, a := range q.addrs() {
			if a.Network() == "unix" {
				out = append(out, ctlwire.Quote("unix:"+a.String()))
			} else {
				out = append(out, ctlwire.Quote(a.String()))
			}
		}
	}
	if q.rest == "or" || q.rest == "dir" {
		out = q.relayPorts(q.rest)
	}
	if q.node != nil && kind != "" {
		for _, line := range q.node.Ports() {
			if k, addr, _ := strings.Cut(line, " "); k == kind {
				if strings.HasPrefix(addr, "/") {
					addr = "unix:" + addr
				}
				out = append(out, ctlwire.Quote(addr))
			}
		}
	}
	return text(strings.Join(out, " "))
}

func (q *query) bootstrap() (control.Answer, error) {
	s, ok := q.status()
	if !ok && q.hosted != nil {
		return text(q.relayPhase().status(""))
	}
	if !ok {
		return text(phases[0].status(""))
	}
	return text(phaseOf(s.Bootstrap).status(s.Bootstrap.Problem))
}

func flag(on bool) (control.Answer, error) {
	if on {
		return text("1")
	}
	return text("0")
}

func (q *query) established() (control.Answer, error) {
	s, _ := q.status()
	if q.node == nil && q.hosted != nil {
		return flag(q.reachable())
	}
	return flag(s.Bootstrap.Ready)
}

func (q *query) enough() (control.Answer, error) {
	s, _ := q.status()
	if d := q.directory(); q.node == nil && d != nil {
		return flag(d.ValidUntil().After(time.Now()))
	}
	return flag(s.Bootstrap.Percent >= 78 && s.Directory.ValidUntil.After(time.Now()))
}

func (q *query) liveness() (control.Answer, error) { return text(livenessOf(q.node, q.hosted)) }

// livenessOf says whether the network is there.
func livenessOf(node *daemon.Hosted, relay *hosted) string {
	if node == nil && relay != nil && relay.Relay().Status().Channels > 0 {
		return "up"
	}
	if node != nil {
		if s := node.Client().Status(); s.Bootstrap.Ready || s.Channels > 0 {
			return "up"
		}
	}
	return "down"
}
