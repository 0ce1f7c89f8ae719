package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// run runs a command of chive, and returns its exit code and what it wrote.
func run(t *testing.T, args ...string) (code int, out, notes string) {
	t.Helper()
	c := Chive(args...)
	var stdout, stderr bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	if err := c.ExecuteContext(t.Context()); err != nil {
		fmt.Fprintln(&stderr, err)
		code = exitCode(err)
	}
	return code, stdout.String(), stderr.String()
}

// torAccepts asks C tor whether it takes a torrc. It skips the test if there is no tor.
func torAccepts(t *testing.T, file string) (bool, string) {
	t.Helper()
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, tor, "--verify-config", "-f", file, "--DataDirectory", filepath.Join(t.TempDir(), "data")).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return err == nil, string(out)
}

// labNetwork is a network whose relays may have private addresses: what the machine of the
// test has for an address must not matter.
const labNetwork = `name = "lab"
[[authority]]
nickname = "a"
v3ident = "0101010101010101010101010101010101010101"
rsa = "0202020202020202020202020202020202020202"
orport = ["127.0.0.1:1"]
[testing]
allow_private_addresses = true
`

// placeTorrc makes a torrc for this machine: its directories are the test's, and its programs exist.
func placeTorrc(t *testing.T, text string) (torrc, network string) {
	t.Helper()
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("/var/lib/tor", dir, "/usr/bin/obfs4proxy", sh, "/usr/local/bin/webtunnel", sh).Replace(text)
	torrc, network = filepath.Join(dir, "torrc"), filepath.Join(dir, "network.toml")
	if err := errors.Join(os.WriteFile(torrc, []byte(text), 0o600), os.WriteFile(network, []byte(labNetwork), 0o600)); err != nil {
		t.Fatal(err)
	}
	return torrc, network
}

// TestRecommendedTorrcs: what the Tor Project's pages tell operators to write becomes a file that the program
// accepts, and C tor accepts the torrc.
func TestRecommendedTorrcs(t *testing.T) {
	for name, c := range map[string]struct {
		role string
		code int
		lost []string // what standard error says
	}{
		"bridge-obfs4":               {"relay", exitLeftOut, []string{"torrc:2: BridgeRelay 1: a bridge is not published"}},
		"bridge-obfs4-hidden-orport": {"relay", 0, nil},
		"bridge-obfs4-name":          {"relay", 0, nil},
		"bridge-webtunnel":           {"relay", exitLeftOut, []string{"torrc:2: BridgeRelay 1: a bridge is not published"}},
		"guard":                      {"relay", 0, nil},
		"exit":                       {"relay", exitLeftOut, []string{"torrc:12: DirPortFrontPage"}},
		"exit-policy":                {"relay", 0, nil},
		"onion":                      {"proxy", 0, nil},
		"client":                     {"proxy", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "torrc", name))
			if err != nil {
				t.Fatal(err)
			}
			file, network := placeTorrc(t, string(text))
			made := file + ".toml"
			code, out, notes := run(t, "config", "import", "--out", made, file)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; it printed %q\n%s", code, c.code, out, notes)
			}
			for _, want := range c.lost {
				if !strings.Contains(notes, want) {
					t.Errorf("%q does not say %q", notes, want)
				}
			}
			if len(c.lost) == 0 && notes != "" {
				t.Errorf("it says %q", notes)
			}
			check := []string{"config", "check", "--config", made, "--data-dir", t.TempDir(), "--network", network}
			if c.role != "proxy" {
				check = append(check[:2:2], append([]string{c.role}, check[2:]...)...)
			}
			if code, out, notes := run(t, check...); code != 0 || out != "ok\n" {
				t.Errorf("exit code %d: %s", code, notes)
			}
			if ok, why := torAccepts(t, file); !ok {
				t.Errorf("C tor refuses it: %s", why)
			}
		})
	}
}

// TestTorJudges: a line that C tor refuses is refused by the import, or by the check of what it
// made; one that C tor takes is taken.
func TestTorJudges(t *testing.T) {
	const relay = "Nickname a\nContactInfo me\nORPort 192.0.2.5:443\nSocksPort 0\n"
	const bridge = "BridgeRelay 1\nServerTransportPlugin obfs4 exec /usr/bin/obfs4proxy\nAddress 192.0.2.5\nSocksPort 0\n"
	const onion = "SocksPort 0\nHiddenServiceDir /var/lib/tor/x\n"
	// Of options that need none here, the value is not judged, but told when it is another. C tor
	// takes "Address 192.0.2.5:443" for a name.
	for role, c := range map[string][]struct{ base, lines string }{
		"relay": {
			{relay, "KeyDirectory /var/lib/tor/k|ReducedExitPolicy 1|ReducedExitPolicy 2|ReducedExitPolicy x|ExitPolicy accept *:99999|ExitPolicy allow *:*|ExitPolicy reject *:25, accept *:*|IPv6Exit 1|DirPort auto|DirPort x"},
			{relay, "Address 192.0.2.5|ORPort [2001:db8::5]:443|ORPort x|ORPort 70000|Nickname toolongtoolongtoolong|RelayBandwidthRate 10 KBytes|RelayBandwidthRate many|ExtORPort auto"},
			{bridge, "ORPort 127.0.0.1:auto|ORPort auto|ORPort 443 IPv4Only|BridgeDistribution none|BridgeDistribution any|ORPort 0.0.0.0:443"},
		},
		"proxy": {
			{onion, "HiddenServicePort 80|HiddenServicePort 0|HiddenServicePort 70000|HiddenServicePort x|HiddenServicePort 80-81|HiddenServicePort 80 8080|HiddenServicePort 0 8080|HiddenServicePort 80-81 8080|HiddenServicePort 80 x"},
			{onion, "HiddenServicePort 80 0|HiddenServicePort 80 70000|HiddenServicePort 80 1 2|HiddenServicePort 80 127.0.0.1:0|HiddenServicePort 80 127.0.0.1:x|HiddenServicePort 80 ::1|HiddenServicePort 80 [::1]:8"},
			{onion + "HiddenServicePort 80 127.0.0.1:1\n", "HiddenServicePort 80 127.0.0.1:2|HiddenServicePort 80 127.0.0.1:1|HiddenServicePort 81 unix:/x|HiddenServicePort 80 unix:/x|HiddenServicePort 80 [::1]:x"},
			{"SocksPort 9050\n", "NodeFamily 2B280B23E1107BB62ABFC40DDCC8824814F80A72,192.0.2.0/24|NodeFamily a,b,|NodeFamily two words|SocksPort x|SocksPort 70000"},
		},
	} {
		for _, group := range c {
			for line := range strings.SplitSeq(group.lines, "|") {
				file, network := placeTorrc(t, group.base+line+"\n")
				made := file + ".toml"
				code, _, why := run(t, "config", "import", "--role", role, "--out", made, file)
				imported := code == 0 || code == exitLeftOut
				if imported {
					check := []string{"config", "check", "--config", made, "--data-dir", t.TempDir(), "--network", network}
					if role == "relay" {
						check = append([]string{"config", "check", "relay"}, check[2:]...)
					}
					code, _, why = run(t, check...)
				}
				accepted := imported && code == 0
				if !accepted && code != exitMistake {
					t.Errorf("%s: exit code %d", line, code)
				}
				if ok, said := torAccepts(t, file); ok != accepted {
					t.Errorf("%s: C tor: %v, Chive: %v\n%s\n%s", line, ok, accepted, why, said)
				}
			}
		}
	}
}
