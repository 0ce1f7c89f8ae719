package interop

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/lab"
)

// onionRole is a place on the circuits of onion services that only Chive's relays take, in
// a network whose other relays are C tor's.
type onionRole struct {
	name string
	// Both programs' clients and services are told to use Chive's relays there, or not to use
	// the others. Nil: they are not told.
	tor func(relays string) []string
	own func(relays, others []string, c *chive.Config)
	// only says which of client and service chooses the relay for the role, and is told.
	// C tor cannot be told about such roles: Chive's relays are among those that it
	// chooses. Empty: both choose, or the network decides.
	only string
	// many has lines for C tor's service so that Chive's relays are among its choice.
	many []string
	// count is the relays' metric that grows when they are used: with each connection, or
	// with each byte.
	count   string
	perByte bool
}

// roleNetworks are the networks for the roles. In the first one, C tor's relays do not
// claim to be directories of onion services.
var roleNetworks = []struct {
	name  string
	less  bool
	roles []onionRole
}{
	{"fewer directories", true, []onionRole{{name: "directory", count: "onion_descriptors_fetched_total"}}},
	{"all", false, []onionRole{
		{name: "introduction point", count: "introductions_total", only: "service",
			many: []string{"HiddenServiceNumIntroductionPoints 8"},
			own:  func(_, others []string, c *chive.Config) { c.ExcludeExitNodes = others }},
		{name: "rendezvous point", count: "rendezvous_total", only: "client",
			own: func(_, others []string, c *chive.Config) { c.ExcludeExitNodes = others }},
		{name: "guard", count: "link_in_bytes_total", perByte: true,
			tor: func(relays string) []string { return []string{"EntryNodes " + relays} },
			own: func(relays, _ []string, c *chive.Config) { c.EntryNodes, c.StrictNodes = relays, true }},
		{name: "second hop", count: "link_in_bytes_total", perByte: true,
			tor: func(relays string) []string { return []string{"HSLayer2Nodes " + relays} },
			own: func(relays, _ []string, c *chive.Config) { c.MiddleNodes, c.StrictNodes = relays, true }},
		{name: "third hop", count: "link_in_bytes_total", perByte: true,
			tor: func(relays string) []string { return []string{"HSLayer3Nodes " + relays} },
			own: func(relays, _ []string, c *chive.Config) {
				c.MiddleNodes, c.StrictNodes, c.Vanguards = relays, true, chive.VanguardsFull
			}},
	}},
}

// onionAmount is what goes through a role for each pair of a client and a service.
type onionAmount struct {
	connects, streams int
	size              int64
}

// TestOnionRoles has Chive's relays in each place of onion services' circuits in turn, among
// relays of C tor, with client and service of each program.
func TestOnionRoles(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: its two networks take minutes to start on a loaded machine; CHIVE_LONG=1 runs it, in half an hour")
	}
	_, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	for _, n := range roleNetworks {
		t.Run(n.name, func(t *testing.T) {
			opts := lab.Options{VotingInterval: 5 * time.Minute, CtorAuthorities: true, CtorRelays: 3, Relays: 3, Exits: 1, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
			if n.less {
				opts.Tor = claimingLess(t)
			}
			nw, err := lab.Start(bounded(t, patience), opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := nw.Close(); err != nil {
					t.Error(err)
				}
			})
			r := &roles{nw: nw, d: describe(t, nw), tor: torBeside(t, nw, ctor.Options{Clients: 1})}
			for _, role := range n.roles {
				t.Run(role.name, func(t *testing.T) { r.through(t, role) })
			}
			r.authorization(t)
			if path, err := findArti(); err == nil && !n.less { // its choice of directories looks at no claims
				t.Run("Arti", func(t *testing.T) { onionArti(t, path, r.d) })
			}
			r.silent(t)
		})
	}
}

// claimingLess makes a copy of C tor's program that does not claim to be a directory for
// onion services, and, as an authority, does not demand it: no program uses it as one. It
// changes the lists of subprotocols in the program, as ctor.Options.WithoutCGO does.
func claimingLess(t *testing.T) string {
	t.Helper()
	tor, gencert, err := ctor.Find("")
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(tor)
	if err != nil {
		t.Fatal(err)
	}
	const claim = " HSDir=2 "
	for _, list := range []struct{ with, end string }{
		{" HSDir=1 ", "Padding=2 Relay=2-6\x00"},                                // all that it can do
		{" Relay=2 ", " HSIntro=4 HSRend=2 Link=4-5 Microdesc=2 Relay=2-4\x00"}, // what is required
		{" Relay=2 ", " HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=2 Relay=2-4\x00"},
	} {
		end := bytes.Index(bin, []byte(list.end))
		if end < 0 {
			t.Fatalf("%s has no list of subprotocols that ends with %s", tor, list.end)
		}
		text := bin[bytes.LastIndexByte(bin[:end], 0) : end+1]
		if bytes.Count(text, []byte(claim)) != 1 {
			t.Fatalf("%s has no%s in %s", tor, claim, text)
		}
		copy(text, bytes.Replace(text, []byte(claim), []byte(list.with), 1))
	}
	dir := t.TempDir()
	if err := os.Symlink(gencert, filepath.Join(dir, "tor-gencert")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "tor")
	if err := os.WriteFile(out, bin, 0o700); err != nil {
		t.Fatal(err)
	}
	return out
}

// roles is a network for roles.
type roles struct {
	nw  *lab.Network
	d   netdir.Network
	tor *ctor.Network // clients of C tor
}

// relays returns the fingerprints of Chive's relays, and of the others.
func (r *roles) relays() (chive, others []string) {
	for _, n := range r.nw.Nodes() {
		switch {
		case n.Relay() != nil:
			chive = append(chive, n.Fingerprint)
		case n.Fingerprint != "":
			others = append(others, n.Fingerprint)
		}
	}
	return chive, others
}

// counted sums a metric of Chive's relays.
func (r *roles) counted(t *testing.T, name string) (sum uint64) {
	t.Helper()
	for _, n := range r.nw.Nodes() {
		if n.Relay() == nil {
			continue
		}
		var b strings.Builder
		if err := n.Relay().WriteMetrics(&b); err != nil {
			t.Fatal(err)
		}
		_, after, ok := strings.Cut(b.String(), "\nchive_relay_"+name+" ")
		value, _, _ := strings.Cut(after, "\n")
		v, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil {
			t.Fatalf("%s has no metric %s: %v", n.Name, name, err)
		}
		sum += v
	}
	return sum
}

// through has all pairs of a client and a service use one role.
func (r *roles) through(t *testing.T, role onionRole) {
	amount := onionAmount{connects: 100, streams: 100, size: 100 << 20}
	relays, others := r.relays()
	var lines []string
	if role.tor != nil {
		lines = role.tor(strings.Join(relays, ","))
	}
	told := func(who string) func(c *chive.Config) {
		if role.own == nil || role.only != "" && role.only != who {
			return nil
		}
		return func(c *chive.Config) { role.own(relays, others, c) }
	}
	dir := filepath.Join(t.TempDir(), "service")
	hosting := append([]string{"HiddenServiceDir " + dir}, lines...)
	targets := map[int]string{onionEcho: shared.target.Addr(target.Echo), onionSource: shared.target.Addr(target.Source)}
	for port, addr := range targets {
		hosting = append(hosting, fmt.Sprintf("HiddenServicePort %d %s", port, addr))
	}
	hosting = append(hosting, role.many...)
	newStock(t, r.tor, hosting...)
	name, err := os.ReadFile(filepath.Join(dir, "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	l := serve(t, inNetwork(t, &r.d, "service", told("service")), chive.OnionConfig{Targets: targets})
	stock, own := newStock(t, r.tor, lines...), inNetwork(t, &r.d, "client", told("client"))
	one := own.Isolated()
	const torClient, torService = "C tor's client", "C tor's service"
	clients := map[string]func(n int) contextDialer{
		torClient: func(n int) contextDialer {
			return socksclient.Dialer{Proxy: stock.SOCKS.String(), User: fmt.Sprint(n), Pass: "x"}
		},
		"Chive's client": func(n int) contextDialer {
			if n == amount.connects {
				return one
			}
			return own.Isolated()
		},
	}
	hosts := map[string]string{torService: strings.TrimSpace(string(name)), "Chive's service": l.Address()}
	for who, host := range hosts {
		for from, dial := range clients {
			before := r.counted(t, role.count)
			line := amount.through(t, dial, host, who == torService && from == torClient)
			did := r.counted(t, role.count) - before
			by := map[string]string{"client": from, "service": who}[role.only]
			least := uint64(1) // a client keeps a descriptor; what C tor chooses is chance
			switch {
			case role.perByte:
				least = 2 * uint64(amount.size) // the client's relay and the service's
			case strings.HasPrefix(by, "Chive"):
				least = uint64(amount.connects)
			}
			if did < least {
				t.Errorf("%s at %s: the relays' %s grew by %d, not %d", from, who, role.count, did, least)
			}
			t.Logf("ROLE %-18s %s at %s: %s; %s +%d", role.name, from, who, line, role.count, did)
		}
	}
	for who, host := range hosts {
		if who == torService && role.many != nil {
			continue // it has more introduction points than other services
		}
		t.Run("stem reads the descriptor of "+who, func(t *testing.T) { stemReads(t, stock, host, "") })
	}
}

// through connects many times, each over circuits of its own, moves many bytes, and opens
// many streams over one circuit. It returns what it did. peers says that client and service
// are C tor's: then connects that fail are only logged. In a small network, C tor's service
// gives a rendezvous up when three circuits turn back to where they came from.
func (a onionAmount) through(t *testing.T, dial func(n int) contextDialer, host string, peers bool) string {
	t.Helper()
	report := t.Errorf
	if peers {
		report = t.Logf
	}
	echoes := fmt.Sprintf("%s:%d", host, onionEcho)
	await(t, "the service", patience, func() bool { return echo(bounded(t, patience), dial(-1), echoes, "hello") == nil })
	good := 0
	var sum time.Duration
	for i := range a.connects {
		began := time.Now()
		if err := echo(bounded(t, patience), dial(i), echoes, fmt.Sprint("number ", i)); err != nil {
			report("connect %d of %d: %v", i+1, a.connects, err)
			continue
		}
		good++
		sum += time.Since(began)
	}
	began := time.Now()
	if err := download(bounded(t, patience), dial(a.connects), fmt.Sprintf("%s:%d", host, onionSource), a.size); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	streams(t, dial(a.connects), host, a.streams)
	return fmt.Sprintf("%d of %d connects, %v each; %d MiB at %.1f MB/s; %d streams", good, a.connects,
		(sum / time.Duration(max(good, 1))).Round(time.Millisecond), a.size>>20, float64(a.size)/took.Seconds()/1e6, a.streams)
}

// authorization has a client of each program at a service of the other that is for
// authorized clients alone, with the right key, a wrong one and none.
func (r *roles) authorization(t *testing.T) {
	t.Run("authorization at Chive", func(t *testing.T) { authorized(t, r.tor, inNetwork(t, &r.d, "closed", nil)) })
	t.Run("authorization at C tor", func(t *testing.T) {
		ctx := bounded(t, 2*patience)
		public, right := x25519Pair(t)
		_, wrong := x25519Pair(t)
		closed := serveOnion(t, ctx, r.tor, shared.target.Addr(target.Web), public)
		with := func(secret string) *chive.Client {
			return inNetwork(t, &r.d, "client of a closed service", func(c *chive.Config) {
				if secret != "" {
					c.ClientOnionAuth = []string{strings.TrimSuffix(closed.host, ".onion") + ":descriptor:x25519:" + secret}
				}
			})
		}
		if err := fetchOnion(ctx, with(right), closed.host, 1000); err != nil {
			t.Errorf("the right key: %v", err)
		}
		for secret, want := range map[string]error{wrong: chive.ErrOnionBadAuth, "": chive.ErrOnionNeedsAuth} {
			if _, err := with(secret).DialContext(ctx, "tcp", closed.host+":80"); !errors.Is(err, want) {
				t.Errorf("%v, not %v", err, want)
			}
		}
	})
}

// asked are the warnings that C tor must give here.
var asked = []string{
	"Client authorization for requested onion address is invalid", // to the one with a wrong key
	"EntryNodes is set with multiple entries and at least one hidden service is configured",
}

// silent checks that no C tor of the network has warned.
func (r *roles) silent(t *testing.T) {
	t.Helper()
	stock := r.tor.Clients()
	for _, n := range stock {
		warnings, err := n.Warnings(0)
		if err != nil {
			t.Error(err)
		}
		for _, w := range warnings {
			if !slices.ContainsFunc(asked, func(s string) bool { return strings.Contains(w, s) }) {
				t.Errorf("%s: %s", n.Name, w)
			}
		}
	}
	for _, n := range r.nw.Nodes() {
		if n.Program != "tor" {
			continue
		}
		log, err := os.ReadFile(filepath.Join(r.nw.Dir, "tor", n.Name, "log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ctor.Warnings(string(log), turnsOf(t, stock, n.Fingerprint)) {
			t.Errorf("%s: %s", n.Name, w)
		}
	}
}

// turnsOf counts the circuits of C tor's clients that a relay refused to lead back to where
// they came from (see ctor.Turns). Read it after the relay's log.
func turnsOf(t *testing.T, clients []*ctor.Node, fingerprint string) (n int) {
	t.Helper()
	id, err := ident.ParseRSAID(fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range clients {
		text, err := os.ReadFile(filepath.Join(node.Dir, "circuits"))
		if err != nil {
			t.Fatal(err)
		}
		n += ctor.Turns(string(text), id)
	}
	return n
}
