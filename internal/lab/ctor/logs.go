package ctor

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/proc"
)

// expected are the warnings that every node of a private network logs.
var expected = []string{
	"You are running Tor as root",
	"You have used DirAuthority or AlternateDirAuthority",
	"TestingTorNetwork is set",
	"you disabled SafeLogging",
	"V3AuthVoteDelay is very low",
	"V3AuthDistDelay is very low",
	"(\"Not found\") from server",    // a relay asks before there is a consensus
	"We just marked ourself as down", // an authority before its first test of itself
	"approved-routers'. That's ok",
	"sr-state\"",                                                              // no shared-randomness state before the first vote
	"matches the configured _HSLayer2Nodes set",                               // vanguards, of so few relays
	"Bw Weight Failure for Case",                                              // so few relays cannot be balanced
	"No available nodes when trying to choose",                                // for a circuit of the node's own, of so few relays
	"Consensus parameter cc_alg is too small",                                 // which a test asks for
	"Your computer is too slow to handle this many circuit creation requests", // of a loaded machine's relays
}

// amongAuthorities matches the messages of authorities about each other's votes
// and signatures, if one of them is late. Other nodes do not cause these.
var amongAuthorities = regexp.MustCompile(`(?i)\bvotes?\b|\bconsensus\b|\bsignatures\b`)

// AmongAuthorities reports whether an authority's warning is only about the other
// authorities' votes, as happens on a loaded machine.
func AmongAuthorities(warning string) bool { return amongAuthorities.MatchString(warning) }

// The messages of a relay if a circuit's next hop would be the previous hop.
const (
	turnsBack  = "Client asked me to extend back to the previous hop"
	afterwards = "connection_edge_process_relay_cell (away from origin) failed"
)

// LogSize returns the size of the node's log, to give to Warnings later.
func (n *Node) LogSize() (int64, error) {
	fi, err := os.Stat(n.LogPath)
	if err != nil {
		return 0, fault.Wrap(fault.Local, err)
	}
	return fi.Size(), nil
}

// Warnings returns the warnings and errors that the node has logged after the
// first from bytes, except those that any private network logs, the refusals that
// the network's own C tor clients caused (see Turns), and messages that
// AmongAuthorities matches. Violations of the protocol by peers are among them:
// ProtocolWarnings is on.
func (n *Node) Warnings(from int64) ([]string, error) {
	b, err := os.ReadFile(n.LogPath)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	// Read this after the log: a client logs a path before it asks for it.
	turns := 0
	for _, c := range n.clients() {
		told, err := os.ReadFile(c.circuitLog())
		if err != nil && !os.IsNotExist(err) {
			return nil, fault.Wrap(fault.Local, err)
		}
		turns += Turns(string(told), n.ID.RSA)
	}
	from = min(from, int64(len(b)))
	out := Warnings(string(b), turns)[len(Warnings(string(b[:from]), turns)):]
	if n.Role == Authority {
		out = slices.DeleteFunc(out, AmongAuthorities)
	}
	return out, nil
}

// Warnings returns the warnings and errors of a log's text, as Node.Warnings does.
// turns is the number of refusals to turn back that are expected.
func Warnings(text string, turns int) []string {
	var out []string
	turned := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		before := turned
		turned = false
		switch {
		case before && strings.Contains(line, afterwards):
		case turns > 0 && strings.Contains(line, turnsBack):
			turns, turned = turns-1, true
		case warns(line):
			out = append(out, line)
		}
	}
	return out
}

func warns(line string) bool {
	if !strings.Contains(line, "[warn]") && !strings.Contains(line, "[err]") {
		return false
	}
	for _, e := range expected {
		if strings.Contains(line, e) {
			return false
		}
	}
	return true
}

// Turns counts, in a C tor client's log of its circuits, the paths that go to a
// relay and directly back to the hop before it. C tor makes such paths in two ways. For a
// circuit that is pre-built for onion services, it allows the guard to be the last hop, too
// (guards_choose_guard, in its entrynodes.c), and in a small network they are often the
// same. And when an introduction point refuses, it extends the circuit from there to
// another one, which may be the hop before (hs_client_reextend_intro_circuit).
func Turns(text string, at ident.RSAID) int {
	n := 0
	before := map[string]bool{} // relays that came before at, which ended the path
	for line := range strings.Lines(text) {
		if _, to, ok := strings.Cut(line, "): Re-extending circ "); ok {
			if _, to, ok = strings.Cut(to, "this time to $"); ok && len(to) >= fingerprintLen && before[to[:fingerprintLen]] {
				n++
			}
			continue
		}
		_, path, ok := strings.Cut(line, "): $")
		if !ok || !strings.Contains(line, " circ (length ") {
			continue
		}
		hops := strings.Split(strings.TrimSpace(path), " $")
		for i := 1; i < len(hops); i++ {
			from, state0, _ := strings.Cut(hops[i-1], "(")
			here, state1, _ := strings.Cut(hops[i], "(")
			if here != at.String() || state0 != "open)" || state1 != "open)" {
				continue
			}
			if i+1 == len(hops) {
				before[from] = true
				continue
			}
			if after, state2, _ := strings.Cut(hops[i+1], "("); after == from && state2 == "closed)" {
				n++
			}
		}
	}
	return n
}

// fingerprintLen is the length of a fingerprint in hexadecimal digits.
const fingerprintLen = 2 * len(ident.RSAID{})

// LastWords returns the end of each node's output and log, for the analysis of a
// failure.
func (nw *Network) LastWords() string {
	var out strings.Builder
	for _, n := range append(nw.Routers(), nw.Clients()...) {
		out.WriteString(n.Name + ":\n" + n.lastWords() + "\n")
	}
	return out.String()
}

// Usage returns the CPU time and memory of the node's process.
func (n *Node) Usage() (proc.Usage, error) {
	pid := n.PID()
	if pid == 0 {
		return proc.Usage{}, fault.New(fault.Config, "%s does not run", n.Name)
	}
	return proc.Of(pid)
}
