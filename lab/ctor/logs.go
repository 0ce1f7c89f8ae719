package ctor

import (
	"io"
	"os"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/lab/proc"
)

// expected are the warnings that every node of a private network gives for
// being in one.
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
	"sr-state\"",                                // no shared-randomness state before the first vote
	"matches the configured _HSLayer2Nodes set", // vanguards, of so few relays
	"Bw Weight Failure for Case",                // so few relays cannot be balanced
}

// In a small network somebody tries, now and then, a path that turns back; who
// it is has not been traced. The relay that refuses it says two things about it.
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
// first from bytes, other than those that any private network gives. Violations of the
// protocol by peers are among them: ProtocolWarnings is on.
func (n *Node) Warnings(from int64) ([]string, error) { return n.Log(from, unexpected()) }

// Warnings returns the warnings and errors of a log's text, as Node.Warnings does.
func Warnings(text string) []string {
	var out []string
	match := unexpected()
	for line := range strings.Lines(text) {
		if match(line) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// unexpected returns a function that is to see a log's lines in their order,
// and tells which are worth a word.
func unexpected() func(line string) bool {
	turned := false
	return func(line string) bool {
		if turned {
			if turned = false; strings.Contains(line, afterwards) {
				return false
			}
		}
		if strings.Contains(line, turnsBack) {
			turned = true
			return false
		}
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
}

// Log returns the lines that the node has logged after the first from bytes and
// that match.
func (n *Node) Log(from int64, match func(line string) bool) ([]string, error) {
	f, err := os.Open(n.LogPath)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if match(line) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out, nil
}

// Usage returns the CPU time and memory of the node's process.
func (n *Node) Usage() (proc.Usage, error) {
	pid := n.PID()
	if pid == 0 {
		return proc.Usage{}, fault.New(fault.Config, "%s does not run", n.Name)
	}
	return proc.Of(pid)
}
