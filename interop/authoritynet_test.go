package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ctortest"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/relay"
)

// authorityNet is a network with Chive's authorities, and C tor's too if mixed,
// and with relays and clients of C tor.
type authorityNet struct {
	t     *testing.T
	tor   string
	newer string // the tor of nodes whose names begin with "new"; empty: there are none
	dir   string
	net   *netdir.Network
	chive []*authority.Authority
	lines []string // DirAuthority

	mu        sync.Mutex                     // guards what follows
	published map[string][]*netdoc.Consensus // by flavor and valid-after, of any Chive authority
}

const (
	authInterval = 10 * time.Second
	authDelay    = 2 * time.Second
)

// freePort returns an unused port that no other program gets while the test runs.
func freePort(t *testing.T) uint16 {
	t.Helper()
	leases := new(ports.Leases)
	t.Cleanup(leases.Release)
	port, err := leases.Take(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// newAuthorityNet starts n Chive authorities, whose configuration change may
// change, and m of C tor.
func newAuthorityNet(t *testing.T, n, m, relays int, bwFile string, change ...func(*authority.Config)) *authorityNet {
	t.Helper()
	var names []string
	for i := range m {
		names = append(names, fmt.Sprintf("ctor%d", i))
	}
	return newNamedAuthorityNet(t, n, names, nil, relays, bwFile, change...)
}

// newNamedAuthorityNet does so with C tor authorities of these names, whose
// configurations have some more lines. Those named "new..." are of the newest tor.
func newNamedAuthorityNet(t *testing.T, n int, names, torrc []string, relays int, bwFile string, change ...func(*authority.Config)) *authorityNet {
	t.Helper()
	tor, gencert, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	newer := ""
	if slices.ContainsFunc(names, isNewer) {
		newer = ctortest.NewestTor(t)
	}
	an := &authorityNet{t: t, tor: tor, newer: newer, dir: t.TempDir(), net: &netdir.Network{Name: "authorities"}, published: map[string][]*netdoc.Consensus{}}
	an.net.Testing.AllowPrivateAddresses = true
	var cfgs []authority.Config
	for i := range n {
		or, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dir, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := authority.Config{
			Nickname: fmt.Sprintf("chive%d", i), Contact: "lab", Network: an.net, ClientVersions: "0.4.9.11", ServerVersions: "0.4.9.11",
			ORPort: or.Addr().(*net.TCPAddr).AddrPort(), DirPort: dir.Addr().(*net.TCPAddr).AddrPort(), ORListener: or, DirListener: dir,
			BandwidthFile: bwFile, WaitForRelays: relays,
			Schedule: authority.Schedule{InitialInterval: authInterval, InitialVoteDelay: authDelay, InitialDistDelay: authDelay, Interval: authInterval, VoteDelay: authDelay, DistDelay: authDelay},
			Flags:    authority.TestingFlags(),
			Accept:   authority.AcceptConfig{AllowPrivateAddresses: true},
			Log:      slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("auth", i),
			Published: func(c *netdoc.Consensus) {
				an.mu.Lock()
				defer an.mu.Unlock()
				key := c.Flavor.String() + " " + c.ValidAfter.String()
				an.published[key] = append(an.published[key], c)
			},
		}
		for _, f := range change {
			f(&cfg)
		}
		if n+len(names) == 1 {
			cfg.Schedule.InitialInterval, cfg.Schedule.InitialVoteDelay, cfg.Schedule.InitialDistDelay = time.Second, 200*time.Millisecond, 200*time.Millisecond
		}
		identity, err := authority.GenerateIdentity(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Keys, err = authority.Certify(rand.Reader, identity, cfg.DirPort, time.Now(), 12); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Keys.AddRelayIdentity(rand.Reader); err != nil {
			t.Fatal(err)
		}
		an.add(netdir.Authority{Nickname: cfg.Nickname, V3Ident: cfg.Keys.Cert.Identity, RSA: netdoc.RSADigest(&cfg.Keys.RSA.PublicKey), Ed: cfg.Keys.Ed.Public(), ORPorts: []netip.AddrPort{cfg.ORPort}, DirPort: cfg.DirPort})
		cfgs = append(cfgs, cfg)
	}
	var torrcs []func()
	for _, name := range names {
		torrcs = append(torrcs, an.prepareTorAuthority(gencert, name, bwFile, torrc))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for _, cfg := range cfgs {
		a, err := authority.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		an.chive = append(an.chive, a)
		wg.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, f := range torrcs {
		f()
	}
	return an
}

func (an *authorityNet) add(a netdir.Authority) {
	an.net.Authorities = append(an.net.Authorities, a)
	an.lines = append(an.lines, fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s %s %s", a.Nickname, a.ORPorts[0].Port(), a.V3Ident, a.DirPort, a.RSA))
}

// prepareTorAuthority makes a C tor authority's keys, and returns the function
// that starts it.
func (an *authorityNet) prepareTorAuthority(gencert, name, bwFile string, torrc []string) func() {
	t := an.t
	orPort, dirPort := freePort(t), freePort(t)
	dir := filepath.Join(an.dir, name)
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gencert, "--create-identity-key", "--passphrase-fd", "0", "-m", "12", "-a", fmt.Sprintf("127.0.0.1:%d", dirPort),
		"-i", filepath.Join(keys, "authority_identity_key"), "-s", filepath.Join(keys, "authority_signing_key"), "-c", filepath.Join(keys, "authority_certificate"))
	cmd.Stdin = strings.NewReader("lab\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(keys, "authority_certificate"))
	if err != nil {
		t.Fatal(err)
	}
	crt, err := netdoc.ParseAuthCert(text)
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty") // tor opens no /dev/null
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(an.torOf(name), "--defaults-torrc", "/nonexistent", "-f", empty, "--DataDirectory", dir, "--ORPort", fmt.Sprint(orPort), "--Nickname", name, "--list-fingerprint", "--hush").Output()
	if err != nil {
		t.Fatalf("tor --list-fingerprint: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n") // warnings come first
	_, fp, _ := strings.Cut(lines[len(lines)-1], " ")
	rsa, err := ident.ParseRSAID(fp)
	if err != nil {
		t.Fatal(err)
	}
	loop := netip.MustParseAddr("127.0.0.1")
	an.add(netdir.Authority{Nickname: name, V3Ident: crt.Identity, RSA: rsa, ORPorts: []netip.AddrPort{netip.AddrPortFrom(loop, orPort)}, DirPort: netip.AddrPortFrom(loop, dirPort)})
	return func() {
		secs := int(authInterval / time.Second)
		lines := append(an.relayLines(name, orPort), "AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1", fmt.Sprintf("DirPort 127.0.0.1:%d IPv4Only", dirPort),
			"ExitRelay 0", "ExitPolicy reject *:*", fmt.Sprintf("TestingV3AuthInitialVotingInterval %d", secs), "TestingV3AuthInitialVoteDelay 2", "TestingV3AuthInitialDistDelay 2",
			fmt.Sprintf("V3AuthVotingInterval %d", secs), "V3AuthVoteDelay 2", "V3AuthDistDelay 2", "V3AuthNIntervalsValid 3", "TestingAuthDirTimeToLearnReachability 0",
			"TestingMinExitFlagThreshold 0", "TestingMinFastFlagThreshold 0", "TestingDirAuthVoteGuard *", "AuthDirVoteStableGuaranteeMinUptime 0", "AuthDirFastGuarantee 1", "TestingDirAuthVoteHSDir *", "AuthDirMaxServersPerAddr 0", "MinUptimeHidServDirectoryV2 0", "AuthDirTestReachability 0")
		if bwFile != "" {
			lines = append(lines, "V3BandwidthsFile "+bwFile)
		}
		an.startTor(name, append(lines, torrc...))
	}
}

// isNewer reports whether the newest tor runs a node of this name.
func isNewer(name string) bool { return strings.HasPrefix(name, "new") }

// torOf returns the program of a node.
func (an *authorityNet) torOf(name string) string {
	if isNewer(name) {
		return an.newer
	}
	return an.tor
}

// relayLines returns a relay's torrc lines. The relay resolves no names here, and
// must not depend on the machine's resolver. For its circuits and guards see
// internal/lab/ctor.
func (an *authorityNet) relayLines(name string, orPort uint16) []string {
	conf := filepath.Join(an.dir, name+".resolv.conf") // its own: while it is written, another relay may read
	if err := os.WriteFile(conf, []byte("nameserver 127.0.0.1:1\n"), 0o600); err != nil {
		an.t.Fatal(err)
	}
	return []string{"SocksPort 0", "Address 127.0.0.1", fmt.Sprintf("ORPort 127.0.0.1:%d IPv4Only", orPort), "ContactInfo lab", "AssumeReachable 1", "__DisablePredictedCircuits 1", "UseEntryGuards 0",
		"ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1", "ServerDNSResolvConfFile " + conf}
}

// startTor starts a tor and ends it with the test.
func (an *authorityNet) startTor(name string, lines []string) {
	t := an.t
	dir := filepath.Join(an.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lines = append(lines, "TestingTorNetwork 1", "DataDirectory "+dir, "Nickname "+name, "SafeLogging 0", "ProtocolWarnings 1", "ShutdownWaitLength 0",
		"GeoIPFile /dev/null", "GeoIPv6File /dev/null", "PathsNeededToBuildCircuits 0.67", "Log info file "+filepath.Join(dir, "log"))
	lines = append(lines, an.lines...)
	rc := filepath.Join(dir, "torrc")
	if err := os.WriteFile(rc, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(an.torOf(name), "--defaults-torrc", "/nonexistent", "-f", rc, "--hush")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone already
		_ = cmd.Wait()
		if t.Failed() {
			text := an.log(name)
			t.Logf("%s: %q\n%s", name, ctor.Warnings(text, 0), text[max(0, len(text)-4000):])
		}
	})
}

func (an *authorityNet) log(name string) string {
	b, err := os.ReadFile(filepath.Join(an.dir, name, "log"))
	if err != nil && !os.IsNotExist(err) {
		an.t.Fatal(err)
	}
	return string(b)
}

// await polls until f is true.
func (an *authorityNet) await(what string, limit time.Duration, f func() bool) {
	an.t.Helper()
	await(an.t, what, limit, f)
}

func (an *authorityNet) startRelays(relays, exits int) { an.startNamedRelays("", relays, exits) }

// startNamedRelays starts relays and exits of C tor whose names begin with prefix.
func (an *authorityNet) startNamedRelays(prefix string, relays, exits int) {
	for i := range relays + exits {
		name, policy := fmt.Sprintf("%srelay%d", prefix, i), []string{"ExitRelay 0", "ExitPolicy reject *:*"}
		if i >= relays {
			name = fmt.Sprintf("%sexit%d", prefix, i-relays)
			policy = []string{"ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0"}
		}
		keys := filepath.Join(an.dir, name, "keys")
		if err := os.MkdirAll(keys, 0o700); err != nil {
			an.t.Fatal(err)
		}
		id, err := relay.MakeFamilyKey(filepath.Join(keys, "lab"))
		if err != nil {
			an.t.Fatal(err)
		}
		policy = append(policy, "FamilyId "+id)
		an.startTor(name, append(an.relayLines(name, freePort(an.t)), policy...))
	}
}

// needPrograms skips short runs.
func needPrograms(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: nothing against other programs")
	}
}

// rounds returns for how many rounds all of n Chive authorities published both
// flavors.
func (an *authorityNet) rounds(n int) (count int) {
	an.mu.Lock()
	defer an.mu.Unlock()
	for key, list := range an.published {
		if strings.HasPrefix(key, "microdesc") && len(list) == n {
			count++
		}
	}
	return count
}

// agreed reports whether there was a round in which n Chive authorities
// published, in both flavors, the same bytes with as many signatures as
// signers. Two that publish different texts fail the test.
func (an *authorityNet) agreed(n, signers int) bool {
	an.t.Helper()
	an.mu.Lock()
	defer an.mu.Unlock()
	flavors := map[string]bool{}
	for key, list := range an.published {
		same := 0
		for _, c := range list {
			if !bytes.Equal(unsignedPart(c.Append(nil)), unsignedPart(list[0].Append(nil))) {
				an.t.Fatalf("%s: two consensuses", key)
			}
			if len(c.Signatures) == signers && bytes.Equal(c.Append(nil), list[0].Append(nil)) {
				same++
			}
		}
		if same == n && len(list[0].Routers) > 3 {
			flavors[list[0].Flavor.String()] = true
		}
	}
	return len(flavors) == 2
}

func unsignedPart(b []byte) []byte { return b[:bytes.Index(b, []byte("\ndirectory-signature "))+1] }

// sameAsCTor reports whether a C tor authority published both flavors of one
// of the consensuses of Chive's.
func (an *authorityNet) sameAsCTor(name string) bool {
	for _, file := range []string{"cached-consensus", "cached-microdesc-consensus"} {
		b, err := os.ReadFile(filepath.Join(an.dir, name, file))
		if err != nil {
			return false
		}
		found := false
		an.mu.Lock()
		for _, list := range an.published {
			found = found || bytes.Equal(unsignedPart(list[0].Append(nil)), unsignedPart(b))
		}
		an.mu.Unlock()
		if !found {
			return false
		}
	}
	return true
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
