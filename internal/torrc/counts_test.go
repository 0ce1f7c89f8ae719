package torrc

import (
	"reflect"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestCounts: of several lines, the one counts here that counts in C tor.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		text string
		role Role
		want map[string][]string
	}{
		// A relay's own limit counts, whichever line is the last.
		{"RelayBandwidthRate 100 KBytes\nRelayBandwidthBurst 200 KBytes\nBandwidthRate 1 GByte\nBandwidthBurst 1 GByte", Relay, map[string][]string{"bandwidth-rate": {"102400"}, "bandwidth-burst": {"204800"}}},
		{"BandwidthRate 1 GByte\nBandwidthBurst 1 GByte\nRelayBandwidthRate 100 KBytes\nRelayBandwidthBurst 200 KBytes", Relay, map[string][]string{"bandwidth-rate": {"102400"}, "bandwidth-burst": {"204800"}}},
		{"BandwidthBurst 1 GByte\nRelayBandwidthRate 100 KBytes", Relay, map[string][]string{"bandwidth-rate": {"102400"}}},
		{"BandwidthRate 1 MByte\nRelayBandwidthRate 0\nBandwidthBurst 2 MBytes", Relay, map[string][]string{"bandwidth-rate": {"1048576"}, "bandwidth-burst": {"2097152"}}},
		{"RelayBandwidthRate 1 MByte\nRelayBandwidthRate 2 MBytes", Relay, map[string][]string{"bandwidth-rate": {"2097152"}}},
		// The level is the log file's.
		{"Log debug file x\nLog warn syslog", Proxy, map[string][]string{"log-level": {"debug"}, "log-file": {"x"}}},
		{"Log warn syslog\nLog notice file x", Proxy, map[string][]string{"log-level": {"info"}, "log-file": {"x"}}},
		{"Log notice file x\nLog warn file y", Proxy, map[string][]string{"log-level": {"warn"}, "log-file": {"y"}}},
		{"RecommendedClientVersions 1,2\nRecommendedClientVersions 3\nRecommendedServerVersions 4", Authority, map[string][]string{"client-versions": {"1", "2", "3"}, "server-versions": {"4"}}},
	} {
		if got := settings(translated1(t, c.text, c.role)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

// TestValues: C tor takes these values.
func TestValues(t *testing.T) {
	for text, want := range map[string]map[string][]string{
		"SocksPort 127.0.0.1:auto":                    {"socks": {"127.0.0.1:0"}},
		"SocksPort [::1]:AUTO IsolateDestAddr":        {"socks": {"[::1]:0 IsolateDestAddr"}},
		"SocksPort Auto":                              {"socks": {"127.0.0.1:0"}},
		"SocksPort localhost:9050":                    {"socks": {"127.0.0.1:9050"}},
		"Socks5Proxy localhost":                       {"proxy": {"socks5://127.0.0.1:1080"}},
		"HTTPSProxy LocalHost:3128":                   {"proxy": {"http://127.0.0.1:3128"}},
		"ConnectionPadding AUTO":                      {"padding": {"auto"}},
		"ConfluxEnabled Auto":                         {"conflux": {"auto"}},
		"VanguardsLiteEnabled Auto":                   {"vanguards": {"auto"}},
		"MaxCircuitDirtiness 1.5 hours":               {"max-circuit-dirtiness": {"1h30m0s"}},
		"MaxCircuitDirtiness 10.7":                    {"max-circuit-dirtiness": {"10s"}},
		"Log\tnotice\tfile\t/x":                       {"log-level": {"info"}, "log-file": {"/x"}},
		"Log [net, ~mm]debug [circ]info warn FILE /x": {"log-level": {"debug"}, "log-file": {"/x"}},
		"Log notice":                                  {"log-level": {"info"}},
	} {
		if got := settings(translated1(t, text, Proxy)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"Log [net info stderr", "Log file /x", "Log", "Log loud stderr", "SocksPort elsewhere:9050", "SocksPort 127.0.0.1:", "MaxCircuitDirtiness 1e400 hours", "MaxCircuitDirtiness 2147483648", "MaxCircuitDirtiness -1"} {
		lines, err := Lines(Source{"torrc", []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Translate(lines, Proxy); err == nil {
			t.Errorf("%q: %v", text, settings(d))
		}
	}
}

func TestOnionTargets(t *testing.T) {
	d := translated1(t, "HiddenServiceDir a\nHiddenServicePort 80 localhost:8080\nHiddenServicePort 80 unix:\"/a b\"\nHiddenServicePort 81 localhost\nHiddenServicePort 82 ::1\nHiddenServicePort 83 [::1]\nHiddenServicePort 84 127.0.0.2", Proxy)
	if got, want := d.Onions[0][1].Values, []string{"80=127.0.0.1:8080", "80=unix:/a b", "81=127.0.0.1:81", "82=[::1]:82", "83=[::1]:83", "84=127.0.0.2:84"}; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	// What C tor takes and Chive does not is told with its line.
	for _, line := range []string{"80 example.com:80", "80 unix:a"} {
		if d := translated1(t, "HiddenServiceDir a\nHiddenServicePort "+line, Proxy); len(d.Onions[0]) != 1 || len(d.Notes) != 1 || d.Notes[0].Same || d.Notes[0].Line.Number != 2 {
			t.Errorf("%s: %+v", line, d.Notes)
		}
	}
	// tor --verify-config refuses these lines.
	for _, line := range []string{"0", "70000", "x", "80-81", "0 8080", "x 8080", "80-81 8080", "80 0", "80 70000", "80 1 2", "80 127.0.0.1:0", "80 127.0.0.1:x", "80 x"} {
		lines, err := Lines(Source{"torrc", []byte("HiddenServiceDir a\nHiddenServicePort " + line)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Translate(lines, Proxy); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "torrc:2: HiddenServicePort") {
			t.Errorf("%s: %+v %v", line, d, err)
		}
	}
}

// TestOnionPort: a port alone, with a target, and what is no port or has a name as its target.
func TestOnionPort(t *testing.T) {
	for text, want := range map[string]string{
		"80": "80=127.0.0.1:80", "80 81": "80=127.0.0.1:81", "80 192.0.2.1": "80=192.0.2.1:80", "80 [::1]:9": "80=[::1]:9",
		"80 localhost:9": "80=127.0.0.1:9", "80 unix:/s": "80=unix:/s", "": "", "0": "", "65536": "", "80 example.com:9": "", "80 unix:s": "", "80 1 2": "", "80 0": "",
	} {
		got, err := OnionPort(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}
