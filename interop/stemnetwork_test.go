package interop

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/lab/ctor"
)

// suiteModules are those of stem's integration tests that need a network, or behave in one as elsewhere: the others speak to the
// public network.
var suiteModules = []string{"connection", "control", "interpreter", "process", "response", "socket", "version"}

const (
	// insideNetwork is the variable of the environment by which the test knows that it is in the network's namespaces.
	insideNetwork = "CHIVE_STEM_NETWORK"
	// What stem's tests know of the public network: a host with ports 80 and 443, and an authority.
	stemHost, stemAuthority = "www.torproject.org", "moria1"
	// stemAtMost bounds the whole.
	stemAtMost = 50 * time.Minute
)

// stemAddr is the host's address.
var stemAddr = netip.AddrFrom4([4]byte{198, 51, 100, 7})

// TestStemNetwork runs stem's integration tests of a controller on a private network of C tor's relays, with C tor and with chive by
// the name tor as one more relay, for every target, and compares test by test. All of it is in namespaces of its own, where the network has
// what those tests look for in the public one.
func TestStemNetwork(t *testing.T) {
	if os.Getenv("CHIVE_LONG") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: stem's tests on a network take some minutes; CHIVE_LONG=1 runs them, as make judge-stem does")
	}
	own := suitePeer(t)
	if os.Getenv(insideNetwork) == "" {
		torProgram(t) // inside there is no network from which modules could come
		args := append(suiteSpace(t, "-n", "-m"), "sh", "-c", `ip link set lo up && exec "$@"`, "sh",
			os.Args[0], "-test.run", "^TestStemNetwork$", "-test.v", "-test.timeout", (stemAtMost - time.Minute).String())
		cmd := exec.CommandContext(bounded(t, stemAtMost), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), insideNetwork+"=1", "CHIVE_INTEROP=1") // what is missing inside is a failure
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), "--- PASS: TestStemNetwork") {
			t.Fatal("it did not run")
		}
		return
	}
	names, mine := stemPlace(t), torProgram(t)
	opts := ctor.Options{Relays: 6, Exits: 2, Names: map[string]string{"auth0": stemAuthority}, Nameserver: names, Log: slog.New(slog.DiscardHandler)}
	nw, err := ctor.Start(bounded(t, 2*patience), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	torrc := "integ.extra_torrc\n"
	for line := range strings.Lines(nw.Torrc()) {
		switch name, _, _ := strings.Cut(line, " "); name {
		case "__OwningControllerProcess": // this test's number, which is another process's in the suite's namespace
		case "PathsNeededToBuildCircuits": // chive refuses it
		default:
			torrc += "|" + line
		}
	}
	options := []string{"--target", "ONLINE,RUN_ALL"}
	for _, m := range suiteModules {
		options = append(options, "--test", m)
	}
	inside := suiteSpace(t)
	compareSuites(t, 750, func(tor string) map[string]string { return runSuite(t, inside, tor, torrc, options...) }, own, mine)
}

// stemPlace prepares the namespaces: the host's address and name, its ports, and a name server for exits, whose address it returns.
func stemPlace(t *testing.T) netip.AddrPort {
	t.Helper()
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", stemAddr, stemHost), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"ip addr add " + stemAddr.String() + "/32 dev lo", "mount --bind " + hosts + " /etc/hosts"} {
		args := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	for _, port := range []uint16{80, 443} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(stemAddr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() { // holds what connects, until the end
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				context.AfterFunc(t.Context(), func() { c.Close() })
			}
		}()
	}
	dns, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dns.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := dns.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := stemAnswer(buf[:n]); reply != nil {
				dns.WriteTo(reply, from) // after a lost reply the exit asks again
			}
		}
	}()
	return netip.MustParseAddrPort(dns.LocalAddr().String())
}

// stemAnswer answers a question about the host, and says of all others that there are none. It returns nil for what is no question.
func stemAnswer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || m.Response || len(m.Questions) == 0 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	switch ours := strings.EqualFold(q.Name.String(), stemHost+"."); {
	case !ours:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: stemAddr.As4()}}}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}
