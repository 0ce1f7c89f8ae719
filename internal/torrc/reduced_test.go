package torrc

import (
	"slices"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestReducedPolicy: an exit with C tor's reduced policy does not get the default one, which
// accepts nearly everything.
func TestReducedPolicy(t *testing.T) {
	for text, first := range map[string]string{
		"ReducedExitPolicy 1\nExitRelay 1": "accept *:20-23",
		"ReducedExitPolicy 1":              "accept *:20-23",
		"ReducedExitPolicy 1\nExitPolicy reject *:22, accept *:81\nIPv6Exit 1": "reject *:22",
		"ExitRelay 1\nReducedExitPolicy 1\nReducedExitPolicy 0":                "default",
		"ExitRelay 0\nReducedExitPolicy 1\nExitPolicy accept *:80":             "",
		"ExitPolicy accept *:80\nReducedExitPolicy 0":                          "accept *:80",
	} {
		got := settings(translated1(t, "ORPort 9001\n"+text, Relay))["exit-policy"]
		if first == "" && got != nil || first != "" && (len(got) == 0 || got[0] != first) {
			t.Errorf("%q: %q", text, got)
		}
		if reduced := slices.Contains(got, "accept *:11371"); reduced != (len(got) > 10) || reduced && got[len(got)-1] != "reject *:*" {
			t.Errorf("%q: %q", text, got)
		}
		if len(got) == 1 {
			continue
		}
		for _, l := range got {
			if _, err := netdoc.ParsePolicyLine(l); err != nil {
				t.Error(l, err)
			}
		}
	}
}

// TestLocalInterfaces: only the relay's configured addresses are refused, so a torrc that
// wants all of the machine's refused loses something.
func TestLocalInterfaces(t *testing.T) {
	for value, same := range map[string]bool{"1": false, "0": true} {
		d := translated1(t, "ORPort 9001\nExitPolicyRejectLocalInterfaces "+value, Relay)
		if len(d.Notes) != 1 || d.Notes[0].Same != same {
			t.Errorf("%s: %+v", value, d.Notes)
		}
	}
}
