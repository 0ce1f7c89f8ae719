package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/stream"
)

// A Chive authority votes on relays of C tor: by its operator's list, and by its
// tests over IPv4 and IPv6. BEGIN_DIR serves its votes too.
func TestChiveAuthorityJudges(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	if !ctor.HasIPv6() {
		t.Skip("SKIPPED, NOTHING WAS TESTED: no IPv6 loopback")
	}
	const list = "!badexit 127.0.0.2\n!reject 127.0.0.3\n!middleonly 127.0.0.4\n!stripguard 127.0.0.5\n!stripv2dir 127.0.0.5\n!invalid 127.0.0.6\n"
	relays := []struct {
		name, addr string
		or         string // its ORPort lines, with PORT for the port; default: the address's
		exit       bool
		has, hasNo string // flags in the vote; "": it is in no vote
	}{
		{"plain", "127.0.0.1", "", true, "Exit Fast Guard HSDir Running V2Dir Valid", "BadExit MiddleOnly"},
		{"badexit", "127.0.0.2", "", true, "BadExit Running Valid", ""},
		{"rejected", "127.0.0.3", "", false, "", ""},
		{"middle", "127.0.0.4", "", true, "MiddleOnly BadExit Running", "Exit V2Dir"},
		{"stripped", "127.0.0.5", "", false, "Running Valid", "V2Dir"},
		{"invalid", "127.0.0.6", "", false, "Running", "Valid"},
		{"both", "127.0.0.1", "ORPort 127.0.0.1:PORT IPv4Only\nORPort [::1]:PORT IPv6Only", false, "Running", ""},
		{"deaf4", "127.0.0.1", "ORPort 127.0.0.1:PORT IPv4Only NoListen\nORPort 127.0.0.1:OTHER IPv4Only NoAdvertise", false, "Valid", "Running"},
		{"deaf6", "127.0.0.1", "ORPort 127.0.0.1:PORT IPv4Only\nORPort [::1]:PORT IPv6Only NoListen", false, "Valid", "Running"},
	}
	// The first vote waits for all relays that can run.
	an := newAuthorityNet(t, 1, 0, len(relays)-3, "", func(c *authority.Config) {
		var err error
		if c.Accept.List, err = authority.ParseRelayList([]byte(list)); err != nil {
			t.Fatal(err)
		}
		c.Accept.IPv6, c.Flags.ListBadExits, c.Flags.ListMiddleOnly = true, true, true
		c.Flags.VoteGuard = authority.RelaySet{"plain"}
	})
	for _, r := range relays {
		lines := []string{"Address " + r.addr, "SocksPort 0", "ContactInfo lab", "AssumeReachable 1", "AssumeReachableIPv6 1", "__DisablePredictedCircuits 1"}
		or := r.or
		if or == "" {
			or = "ORPort " + r.addr + ":PORT IPv4Only"
		}
		if strings.Contains(or, "[::1]") {
			lines = append(lines, "Address [::1]")
		}
		lines = append(lines, strings.Split(strings.NewReplacer("PORT", fmt.Sprint(freePort(t)), "OTHER", fmt.Sprint(freePort(t))).Replace(or), "\n")...)
		if r.exit {
			lines = append(lines, "ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0",
				"ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1")
		} else {
			lines = append(lines, "ExitRelay 0", "ExitPolicy reject *:*")
		}
		an.startTor(r.name, lines)
	}
	var vote *netdoc.Vote
	find := func(name string) *netdoc.RouterStatus {
		for i := range vote.Routers {
			if vote.Routers[i].Nickname == name {
				return &vote.Routers[i]
			}
		}
		return nil
	}
	defer func() {
		if t.Failed() && vote != nil {
			for i := range vote.Routers {
				t.Log(vote.Routers[i].Nickname, vote.Routers[i].Flags, vote.Routers[i].ORAddrs)
			}
		}
	}()
	an.await("a vote about all relays that it reaches", patience, func() bool {
		if an.chive[0].Consensus(netdoc.FlavorMicrodesc) == nil {
			return false
		}
		vote = an.vote(0)
		for _, r := range relays {
			s := find(r.name)
			if (r.has != "") != (s != nil) || s != nil && strings.Contains(r.has, "Running") != s.Flags.Has(netdoc.FlagRunning) {
				return false
			}
		}
		return true
	})
	for _, r := range relays {
		s := find(r.name)
		if s == nil {
			continue
		}
		flags := " " + s.Flags.String() + " "
		for _, f := range strings.Fields(r.has) {
			if !strings.Contains(flags, " "+f+" ") {
				t.Errorf("%s is not %s:%s", r.name, f, flags)
			}
		}
		for _, f := range strings.Fields(r.hasNo) {
			if strings.Contains(flags, " "+f+" ") {
				t.Errorf("%s is %s:%s", r.name, f, flags)
			}
		}
		if six := len(s.ORAddrs) == 1 && s.ORAddrs[0].Addr().Is6(); six != (r.name == "both") {
			t.Errorf("%s: IPv6 addresses %v", r.name, s.ORAddrs)
		}
	}
	an.await("the relay that was rejected to know", patience, func() bool { return strings.Contains(an.log("rejected"), "rejected") })

	// The ORPort serves the same documents as the DirPort, and accepts the same
	// uploads: bad ones get the same answer.
	a := an.net.Authorities[0]
	if status, body := beginDir(t, a, "GET", "/tor/status-vote/current/authority", nil); status != 200 {
		t.Errorf("a vote by BEGIN_DIR: %d", status)
	} else if v, err := netdoc.ParseVote(body); err != nil || v.Source.Identity != a.V3Ident {
		t.Errorf("a vote by BEGIN_DIR: %v", err)
	}
	for path, doc := range map[string][]byte{"/tor/post/vote": vote.Text, "/tor/post/consensus-signature": []byte("junk"), "/tor/": []byte("junk\n")} {
		if status, _ := beginDir(t, a, "POST", path, doc); status != 400 { // the vote is of a round that is over
			t.Errorf("POST %s by BEGIN_DIR: %d", path, status)
		}
	}
}

// beginDir makes a request to an authority on a directory stream.
func beginDir(t *testing.T, a netdir.Authority, method, path string, body []byte) (status int, answer []byte) {
	t.Helper()
	ctx := bounded(t, time.Minute)
	log := slog.New(slog.DiscardHandler)
	m := channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{Log: log}, func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at.String())
	})
	defer m.Close()
	to := linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts}
	ch, err := m.Get(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	params := flow.DefaultParams()
	circ, err := circuit.Create(ctx, &circuit.Env{Log: log, Now: time.Now}, ch, to, circuit.HopOptions{Handshake: handshake.Fast, Flow: &params})
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.BeginDir(circ.Last())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if end, ok := ctx.Deadline(); ok {
		s.SetDeadline(end)
	}
	if _, err := fmt.Fprintf(s, "%s %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}
