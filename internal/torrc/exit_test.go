package torrc

import (
	"reflect"
	"testing"
)

// TestExitLines: which relay is an exit, and by which policy, is as in C tor. With the reduced
// policy, it does not get the default one, which accepts nearly everything.
func TestExitLines(t *testing.T) {
	reduced := map[string][]string{"reduced-exit-policy": {"true"}}
	for text, want := range map[string]map[string][]string{
		"ReducedExitPolicy 1\nExitRelay 1": reduced,
		"ReducedExitPolicy 1":              reduced,
		"ReducedExitPolicy 1\nExitPolicy reject *:22, accept *:81\nIPv6Exit 1": {"reduced-exit-policy": {"true"}, "exit-policy": {"reject *:22", "accept *:81"}, "ipv6-exit": {"true"}},
		"ExitRelay 1\nReducedExitPolicy 1\nReducedExitPolicy 0":                {"reduced-exit-policy": {"false"}, "exit-policy": {"default"}},
		"ExitRelay 0\nReducedExitPolicy 1\nExitPolicy accept *:80":             {},
		"ExitPolicy accept *:80\nReducedExitPolicy 0":                          {"exit-policy": {"accept *:80"}, "reduced-exit-policy": {"false"}},
		"IPv6Exit 1":              {"ipv6-exit": {"true"}, "exit-policy": {"default"}},
		"IPv6Exit 1\nExitRelay 0": {"ipv6-exit": {"true"}},
		"IPv6Exit 1\nIPv6Exit 0":  {"ipv6-exit": {"false"}},
	} {
		got := settings(translated1(t, "ORPort 9001\n"+text, Relay))
		if delete(got, "orport"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
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
