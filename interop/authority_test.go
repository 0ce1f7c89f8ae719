package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// expectedWarnings are the warnings that C tor's nodes of a role (the beginning
// of their names) log here, in addition to those in any private network.
var expectedWarnings = map[string][]string{
	"client": {"is giving Tor only an IP address"}, // which the target has no name for
	"relay":  {familyAlone},
	// The client may know of a relay a few seconds before the exit does.
	"exit": {familyAlone, "to open a stream from unknown relay"},
	// It votes while Chive's authorities still wait for relays. On a loaded
	// machine two authorities may be in different rounds for a moment, one may
	// post its vote too late, and a vote may be both fetched and posted. That
	// costs one round at most, and the tests wait for rounds that all authorities
	// sign.
	"ctor": {"V3AuthVotingInterval is very low", "valid-after time", `("Duplicate discarded")`,
		"our cutoff for received votes", "received too late", "good signatures from recognized authorities",
		"We don't have enough votes to generate a consensus", "Not enough info to publish pending"},
}

// familyAlone is C tor's warning about a family with a key only.
const familyAlone = "FamilyId was configured, but MyFamily was not"

// noWarnings fails for every warning in a tor's log that is not expected.
func (an *authorityNet) noWarnings(names ...string) {
	an.t.Helper()
	for _, n := range names {
		text := an.log(n)
		role := strings.TrimPrefix(strings.TrimRight(n, "0123456789"), "new")
		expected, ok := expectedWarnings[role]
		if !ok {
			an.t.Fatalf("%s: not a role", n)
		}
		turns := 0
		if role != "client" {
			turns = ctor.Turns(an.log("client")+an.log("newclient"), an.fingerprint(n))
		}
		for _, w := range ctor.Warnings(text, turns) {
			if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(w, e) }) {
				an.t.Errorf("%s: %s", n, w)
			}
		}
	}
}

// fingerprint returns the fingerprint that a relay has written to its file.
func (an *authorityNet) fingerprint(name string) ident.RSAID {
	b, err := os.ReadFile(filepath.Join(an.dir, name, "fingerprint"))
	if err != nil {
		an.t.Fatal(err)
	}
	_, fp, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	id, err := ident.ParseRSAID(fp)
	if err != nil {
		an.t.Fatal(err)
	}
	return id
}

// fetchChecked fetches some bytes of the target and checks them.
func fetchChecked(t *testing.T, who string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	defer cancel()
	const size = 1 << 20
	sum := func(c *http.Client) (out [32]byte, err error) {
		req, err := http.NewRequestWithContext(ctx, "GET", shared.target.URL(size), nil)
		if err != nil {
			return out, err
		}
		res, err := c.Do(req)
		if err != nil {
			return out, err
		}
		defer res.Body.Close()
		h := sha256.New()
		if n, err := io.Copy(h, res.Body); err != nil || n != size {
			return out, fmt.Errorf("%d bytes: %v", n, err)
		}
		return [32]byte(h.Sum(nil)), nil
	}
	want, err := sum(http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	// C tor's exits accept no stream through a relay that they do not know yet:
	// for a few seconds the client may have a newer consensus.
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		got, err := sum(&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 30 * time.Second})
		if err == nil {
			if got != want {
				t.Errorf("%s: the download differs", who)
			}
			return
		}
		select {
		case <-end.C:
			t.Errorf("%s: download: %v", who, err)
			return
		case <-time.After(time.Second):
		}
	}
}

// useCTor bootstraps a C tor client on the network.
func (an *authorityNet) useCTor() { an.useCTorAs("client") }

// useCTorAs does so with a client of that name.
func (an *authorityNet) useCTorAs(name string) {
	port := freePort(an.t)
	an.startTor(name, []string{fmt.Sprintf("SocksPort 127.0.0.1:%d", port)})
	an.await("C tor client's bootstrap", patience, func() bool { return strings.Contains(an.log(name), "Bootstrapped 100%") })
	fetchChecked(an.t, "C tor", socksclient.Dialer{Proxy: fmt.Sprintf("127.0.0.1:%d", port)}.DialContext)
	an.noWarnings(name)
}

// useChive bootstraps a Chive client on the network.
func (an *authorityNet) useChive() {
	t := an.t
	text, err := netfile.Format(an.net)
	if err != nil {
		t.Fatal(err)
	}
	nw, err := chive.ParseNetwork(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := chive.New(chive.Config{Network: nw, DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	fetchChecked(t, "Chive", c.DialContext)
}

// useArti bootstraps Arti on the network, if Arti is installed.
func (an *authorityNet) useArti() {
	t := an.t
	path, err := findArti()
	if err != nil {
		if os.Getenv("CHIVE_ARTI") != "" && os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatal(err)
		}
		t.Logf("NOT TESTED: arti: %v", err)
		return
	}
	p, err := startArti(bounded(t, patience), path, *an.net, t.TempDir(), freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	fetchChecked(t, "Arti", p.dialer().DialContext)
}

// One Chive authority: relays and a client of C tor, a Chive client and Arti work
// with its consensus.
func TestChiveAuthority(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	an := newAuthorityNet(t, 1, 0, 5, "")
	began := time.Now()
	an.startRelays(3, 2)
	an.await("a consensus", patience, func() bool { return an.chive[0].Consensus(netdoc.FlavorMicrodesc) != nil })
	t.Logf("first consensus after %v", time.Since(began))
	an.useCTor()
	t.Logf("C tor client had used it after %v", time.Since(began))
	an.useChive()
	an.useArti()
	mine := an.addChive()
	var detached []byte // they are there for two seconds of every round
	an.await("detached signatures", patience, func() bool {
		res, err := http.Get("http://" + an.net.Authorities[0].DirPort.String() + "/tor/status-vote/next/consensus-signatures")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		detached, err = io.ReadAll(res.Body)
		return err == nil && res.StatusCode == 200
	})
	an.await("a second round, with Chive's relays", patience, func() bool {
		return an.rounds(1) >= 2 && bytes.Contains(an.chive[0].Consensus(netdoc.FlavorMicrodesc), []byte("\nr chiverelay "))
	})
	an.useStem(detached, mine.Descriptor().Text)
	an.noWarnings("relay0", "relay1", "relay2", "exit0", "exit1")
}

// Three Chive authorities publish the same bytes, which all have signed.
func TestChiveAuthoritiesAgree(t *testing.T) {
	t.Parallel()
	needPrograms(t)
	an := newAuthorityNet(t, 3, 0, 5, "")
	an.startRelays(3, 2)
	an.await("a round that all sign", patience, func() bool { return an.agreed(3, 3) })
	an.useCTor()
	an.noWarnings("relay0", "relay1", "relay2", "exit0")
}
