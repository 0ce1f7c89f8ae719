package torrc

import (
	"reflect"
	"strings"
	"testing"
)

// TestPorts: what others reach, and at which port, is as in C tor.
func TestPorts(t *testing.T) {
	for text, want := range map[string]map[string][]string{
		"ORPort auto":                                            {"orport": {"0.0.0.0:0"}},
		"ORPort 192.0.2.1:auto":                                  {"orport": {"192.0.2.1:0"}},
		"ORPort 127.0.0.1:auto\nAddress 192.0.2.5":               {"orport": {"127.0.0.1:0"}, "address": {"192.0.2.5"}},
		"ORPort 127.0.0.1:auto\nAddress 2001:db8::5":             {"orport": {"127.0.0.1:0"}, "address": {"2001:db8::5"}},
		"Address bridge.example.org\nORPort auto":                {"orport": {"0.0.0.0:0"}, "address": {"bridge.example.org"}},
		"Address bridge.example.org\nORPort 443 NoListen":        {"address": {"bridge.example.org:443"}},
		"ORPort 9001 NoAdvertise\nAddress 192.0.2.5\nORPort 443": {"orport": {"9001", "443"}, "address": {"192.0.2.5:443"}},
		"ORPort 9001 NoAdvertise\nAddress 192.0.2.5":             {"orport": {"9001"}, "address": {"192.0.2.5"}},
		"ORPort 9001 IPv4Only\nORPort 9001 IPv6Only":             {"orport": {"9001", "[::]:9001"}},
		"ORPort auto IPv6Only":                                   {"orport": {"[::]:0"}},
		"DirPort 80":                                             {"dirport": {"0.0.0.0:80"}},
		"DirPort auto":                                           {"dirport": {"0.0.0.0:0"}},
		"DirPort 127.0.0.1:80 NoListen\nDirPort 0":               {},
	} {
		if got := settings(translated1(t, text, Relay)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for text, why := range map[string]string{
		"ORPort 9001 Elsewhere": "without the port's Elsewhere", "DirPort 80 NoAdvertise": "without the port's NoAdvertise",
		"DirPort 80 NoListen": "not listened at", "ORPort 80 NoAdvertise": "set `address`",
	} {
		if d := translated1(t, text, Relay); len(d.Notes) != 1 || d.Notes[0].Same || !strings.Contains(d.Notes[0].Why, why) {
			t.Errorf("%q: %+v", text, d.Notes)
		}
	}
	for _, n := range translated1(t, "Address 192.0.2.5\nORPort 443 NoListen\nORPort 127.0.0.1:9090 NoAdvertise", Relay).Notes {
		if !n.Same {
			t.Errorf("%+v", n)
		}
	}
	if _, err := Translate([]Line{{"torrc", 1, "Address", "192.0.2.5:443", false}}, Relay); err == nil || !strings.Contains(err.Error(), "torrc:1: Address") {
		t.Error(err)
	}
}

// TestUnpublished: C tor gives a bridge to the bridge authority, unless a line says otherwise. Who
// moves hears that Chive does not.
func TestUnpublished(t *testing.T) {
	for text, lost := range map[string]int{
		"BridgeRelay 1": 1, "BridgeRelay 1\nBridgeRelay 0": 0, "BridgeRelay 1\nBridgeDistribution none": 0, "BridgeRelay 1\nBridgeDistribution https": 1,
		"BridgeRelay 1\nPublishServerDescriptor 0": 0, "PublishServerDescriptor 1\nBridgeRelay 1": 1, "PublishServerDescriptor 0": 0, "PublishServerDescriptor 1": 0,
	} {
		n := 0
		for _, note := range translated1(t, "ORPort 443\n"+text, Relay).Notes {
			if !note.Same && !strings.Contains(note.Why, "a later line") {
				n++
			}
		}
		if n != lost {
			t.Errorf("%q: %d lines are lost, not %d", text, n, lost)
		}
	}
}

// TestGuards: the names in the list are options of C tor, and a lost one counts as a guard only
// then.
func TestGuards(t *testing.T) {
	for _, name := range guards {
		if o := byName()[strings.ToLower(name)]; o == nil || o.Name != name {
			t.Errorf("%s is no option", name)
		}
	}
	for text, want := range map[string]bool{
		"SocksPolicy reject *": true, "hslayer2nodes a": true, "DoSCircuitCreationEnabled 1": true, "RunAsDaemon 1": false, "UseEntryGuards 1": false, "UseEntryGuards 0": true,
	} {
		got := false
		for _, n := range translated1(t, text, Proxy).Notes {
			got = got || !n.Same && Guards(n.Line)
		}
		if got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestElsewhere: a line of another program says whose it is; one that switches something off
// loses nothing.
func TestElsewhere(t *testing.T) {
	d := translated1(t, "ORPort 443\nSocksPort 0\nExitNodes {de}\nHiddenServiceDir a", Relay)
	if len(d.Notes) != 3 || !d.Notes[0].Same || d.Notes[1].Same || d.Notes[1].In != Proxy || d.Notes[2].In != Onion {
		t.Errorf("%+v", d.Notes)
	}
}
