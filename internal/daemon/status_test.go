package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive"
)

func TestStatusSocket(t *testing.T) {
	r := run(t, "")
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Percent: 1}) // the status socket is open by now
	st, err := ReadStatus(t.Context(), r.dir)
	if err != nil || st.Proxy == nil || st.Proxy.Network != "test" {
		t.Fatalf("%+v %v", st, err)
	}
	if fi, err := os.Stat(filepath.Join(r.dir, statusSocket)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
	if _, err := ReadStatus(t.Context(), r.dir); err == nil || !strings.HasPrefix(err.Error(), "no proxy, relay or authority runs") {
		t.Errorf("after the end: %v", err)
	}
}

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b strings.Builder
	PrintStatus(&b, chive.Status{
		Network: "lab", Started: now.Add(-time.Hour), Circuits: 3, Building: 1, Channels: 2, Streams: 4, Read: 5, Written: 6,
		Bootstrap: chive.BootstrapStatus{Percent: 30, Stage: "asking", Problem: "no route"},
		Directory: chive.DirectoryStatus{ValidAfter: now, ValidUntil: now, Relays: 9, Usable: 8},
		Bridges:   []chive.BridgeStatus{{Transport: "obfs4", Problem: "refused"}, {Fingerprint: "AB", Nickname: "g", Usable: true}},
		Guards:    []chive.GuardStatus{{Fingerprint: "AB", Nickname: "g", Confirmed: true, Reachable: "yes"}},
		Open: []chive.CircuitStatus{{ID: 7, Path: []string{"0123456789", "AB", "CD"}, Hops: []chive.HopProtection{
			{Handshake: "pq768", PQ: "pq768", Carriage: "A"}, {Handshake: "ntor"}, {Handshake: "ntor-v3", PQ: "pq768", Carriage: "B"}}}},
	}, now)
	const want = `network    lab
state      not ready: 30%, asking
problem    no route
up         1h0m0s
directory  9 relays, 8 usable; valid until 2026-01-02 03:04:05 UTC
open       2 channels, 3 circuits (and 1 being built), 4 streams
traffic    5 bytes read, 6 written
bridge     unknown  obfs4 (not usable yet: refused)
bridge     AB g plain (its descriptor is here)
guard      AB g (reachable: yes, confirmed, not usable now)
circuit    7: 01234567 (pq768) AB (ntor) CD (ntor-v3, then pq768)
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}
