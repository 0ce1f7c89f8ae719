package ctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/ident"
)

// Lines as tor 0.4.9.11 writes them, of one client and of the relay in the
// middle of its path.
const (
	clientLog = `Nov 21 17:17:35.000 [info] internal (high-uptime) circ (length 3, last hop relay0): $5072B87F1633149545EA091E9515A996B610CF34(open) $89E79874E6F856044E79753E928805DD6A7D2AFE(closed) $5072B87F1633149545EA091E9515A996B610CF34(closed)
Nov 21 17:17:35.000 [info] internal (high-uptime) circ (length 3, last hop relay0): $5072B87F1633149545EA091E9515A996B610CF34(open) $89E79874E6F856044E79753E928805DD6A7D2AFE(open) $5072B87F1633149545EA091E9515A996B610CF34(closed)
Nov 21 17:17:36.000 [info] exit circ (length 3, last hop exit0): $5072B87F1633149545EA091E9515A996B610CF34(open) $89E79874E6F856044E79753E928805DD6A7D2AFE(open) $914BC83C894E19479428D5FE7FE371D4A9208914(closed)
Nov 21 17:17:36.000 [info] directory_post_to_dirservers(): Uploading an extrainfo too (length 815)
`
	reextended = `Nov 22 17:17:35.000 [info] internal (high-uptime) circ (length 4, last hop relay0): $5072B87F1633149545EA091E9515A996B610CF34(open) $89E79874E6F856044E79753E928805DD6A7D2AFE(open) $914BC83C894E19479428D5FE7FE371D4A9208914(open) $1A29B87F1633149545EA091E9515A996B610CF34(open)
Nov 22 17:17:35.000 [info] hs_client_reextend_intro_circuit(): Re-extending circ 3137339393, this time to $914BC83C894E19479428D5FE7FE371D4A9208914~relay5 [1N9] at 127.0.0.1.
Nov 22 17:17:36.000 [info] hs_client_reextend_intro_circuit(): Re-extending circ 3137339394, this time to $89E79874E6F856044E79753E928805DD6A7D2AFE~relay6 [1N9] at 127.0.0.1.
`
	refusal = `Nov 21 17:17:35.000 [warn] Client asked me to extend back to the previous hop.
Nov 21 17:17:35.000 [warn] connection_edge_process_relay_cell (away from origin) failed.
`
	byEd  = "Nov 21 17:17:35.000 [warn] Client asked me to extend back to the previous hop (by Ed25519 ID).\n"
	after = "Nov 21 17:17:35.000 [warn] connection_edge_process_relay_cell (away from origin) failed.\n"
	usual = "Nov 21 17:17:31.000 [warn] You are running Tor as root. You don't need to, and you probably shouldn't.\n" +
		"Nov 21 17:17:31.000 [notice] Bootstrapped 100% (done): Done\n"
)

func TestTurns(t *testing.T) {
	for fp, want := range map[string]int{
		"89E79874E6F856044E79753E928805DD6A7D2AFE": 1, "5072B87F1633149545EA091E9515A996B610CF34": 0, "914BC83C894E19479428D5FE7FE371D4A9208914": 0,
		"1A29B87F1633149545EA091E9515A996B610CF34": 1,
	} {
		id, err := ident.ParseRSAID(fp)
		if err != nil {
			t.Fatal(err)
		}
		if n := Turns(clientLog+reextended, id); n != want {
			t.Errorf("%s: %d turns, want %d", fp, n, want)
		}
	}
}

// A refusal passes only as often as a client is known to have asked for it.
func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		turns int
		want  []string
	}{
		"nothing":         {usual, 0, nil},
		"a turn of tor's": {usual + refusal, 1, nil},
		"a turn of ours":  {usual + refusal, 0, strings.Split(strings.TrimSpace(refusal), "\n")},
		"one of two":      {refusal + usual + refusal, 1, strings.Split(strings.TrimSpace(refusal), "\n")},
		"by Ed25519":      {byEd, 0, []string{strings.TrimSpace(byEd)}},
		"no turn before":  {usual + after, 1, []string{strings.TrimSpace(after)}},
		"a line between":  {strings.Replace(refusal, "\n", "\n"+usual, 1), 1, []string{strings.TrimSpace(after)}},
	} {
		if got := Warnings(c.text, c.turns); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
