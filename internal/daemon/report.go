package daemon

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/relay"
)

// stamp writes a time for people.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// hibernation says what a relay does whose limit of bytes does not let it serve.
var hibernation = map[string]string{
	"soft":    "hibernating: little is left of its limit of bytes, and it takes nothing new",
	"dormant": "dormant: its limit of bytes is used up, or it has not woken yet in this interval",
	"waking":  "hibernating: it may serve again, but cannot open its ports; the log says why",
}

// printRelay writes a relay's status for people.
func printRelay(w io.Writer, st *relay.Status, now time.Time) {
	kind := "relay: guard and middle"
	switch {
	case st.Bridge:
		kind = "bridge"
	case st.Exit:
		kind = "exit"
	}
	state := "serving; its port has not been reached from outside yet"
	switch {
	case st.Draining:
		state = "draining: no new circuits are taken, and it ends when the open ones have"
	case hibernation[st.Hibernation] != "":
		state = hibernation[st.Hibernation]
	case st.Reachable:
		state = "serving"
	}
	fmt.Fprintf(w, "network    %s\n%-10s %s %s at %s\n", st.Network, "relay", st.Nickname, st.Fingerprint, strings.Join(st.ORPort, ", "))
	fmt.Fprintf(w, "kind       %s\nstate      %s\nup         %v\n", kind, state, now.Sub(st.Started).Round(time.Second))
	switch {
	case st.Bridge:
	case st.Listed:
		fmt.Fprintf(w, "consensus  of %s: %s; weight %d\n", stamp(st.ValidAfter), cmp.Or(st.Flags, "no flags"), st.Weight)
	case st.ValidAfter.IsZero():
		fmt.Fprintf(w, "consensus  none yet\n")
	default:
		fmt.Fprintf(w, "consensus  of %s: the relay is not listed\n", stamp(st.ValidAfter))
	}
	if !st.Published.IsZero() && !st.Bridge {
		fmt.Fprintf(w, "published  %s; accepted by %d of %d authorities\n", stamp(st.Published), st.Accepted, st.Authorities)
	}
	fmt.Fprintf(w, "open       %d channels, %d connections, %d circuits, %d streams\n", st.Channels, st.Connections, st.Circuits, st.Streams)
	fmt.Fprintf(w, "traffic    %d bytes in, %d out; %d cells in, %d out\n", st.BytesIn, st.BytesOut, st.CellsIn, st.CellsOut)
	fmt.Fprintf(w, "handshakes %d done, %d refused for load\n", st.Onionskins, st.Dropped)
	limit := "no limit"
	if st.Rate > 0 {
		limit = fmt.Sprintf("limited to %d, bursts of %d", st.Rate, max(st.Burst, st.Rate))
	}
	fmt.Fprintf(w, "bandwidth  %d bytes a second observed; %s\n", st.Observed, limit)
	fmt.Fprintf(w, "memory     %d of %d MiB for peers; max-memory is %d MiB, %s\n", st.Memory>>20, st.MemoryBound>>20, st.MaxMemory>>20, st.MaxMemoryWhy)
	if st.MemoryFull {
		fmt.Fprintf(w, "problem    the memory for peers is nearly full: raise max-memory if the machine has more, or give the machine more\n")
	}
	if st.AccountingMax > 0 {
		fmt.Fprintf(w, "accounting %d of %d bytes used from %s to %s\n", st.AccountingUsed, st.AccountingMax, stamp(st.AccountingStart), stamp(st.AccountingEnd))
		if now.Before(st.AccountingWake) {
			fmt.Fprintf(w, "wakes      %s\n", stamp(st.AccountingWake))
		}
	}
	master := "the master key is here"
	if !st.MasterKeyHere {
		master = "the master key is elsewhere"
	}
	fmt.Fprintf(w, "keys       signing key good until %s; %s; onion key of %s\n", stamp(st.SigningKeyEnds), master, stamp(st.OnionKeySince))
}

// printAuthority writes an authority's status for people.
func printAuthority(w io.Writer, st *authority.Status, now time.Time) {
	fmt.Fprintf(w, "network    %s\nauthority  %s %s, one of %d\n", st.Network, st.Nickname, st.V3Ident, st.Authorities)
	fmt.Fprintf(w, "ports      ORPort %s, DirPort %s\nup         %v\n", st.ORPort, st.DirPort, now.Sub(st.Started).Round(time.Second))
	if st.ValidAfter.IsZero() {
		fmt.Fprintf(w, "consensus  none yet\n")
	} else {
		fmt.Fprintf(w, "consensus  of %s, valid until %s, %d signatures\n", stamp(st.ValidAfter), stamp(st.ValidUntil), st.Signatures)
	}
	fmt.Fprintf(w, "relays     %d known, %d running\n", st.Relays, st.Running)
	if !st.NextVote.IsZero() {
		fmt.Fprintf(w, "round      votes at %s, consensus at %s; %d votes are here\n", stamp(st.NextVote), stamp(st.NextConsensus), st.Votes)
	}
	fmt.Fprintf(w, "keys       certificate good until %s\n", stamp(st.CertificateEnds))
}
