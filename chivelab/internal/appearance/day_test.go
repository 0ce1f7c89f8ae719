package appearance

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/authority"
)

// made is a trace of a client that does little.
func made(subject string, hours ...float64) *Trace {
	t := &Trace{Name: subject, Subject: subject, Role: dayIdle}
	t.Links = []TraceLink{{Opened: 100, Ended: 500, Last: 300, Padding: []float64{110, 115, 121}}}
	t.Circuits = []TraceCircuit{{Began: 101, Destroyed: 287, Asked: 3, Relays: []int{1, 2, 3}}, {Began: 100, Destroyed: 720, Asked: 1, Relays: []int{1}}}
	for _, h := range hours {
		t.Requests = append(t.Requests, TraceRequest{At: h * 3600, Form: "GET /tor/status-vote/current/consensus-microdesc/SIX.z HTTP/1.0"})
	}
	return t
}

// TestCompareDay: rows of a day are alike for alike clients, and name what one of the programs does alone.
func TestCompareDay(t *testing.T) {
	rowsOf := func(ts ...*Trace) map[string]Row {
		out := map[string]Row{}
		for _, r := range CompareDay(ts, "first", "second") {
			out[r.Name] = r
		}
		return out
	}
	alike := rowsOf(made("first", 1, 3, 5), made("second", 1.01, 3.02, 5))
	for name, r := range alike {
		if r.Different {
			t.Errorf("%s differs: %s and %s", name, r.First, r.Second)
		}
	}
	if r := alike["idle-links-life"]; !r.Unknown { // one number of each is too little
		t.Errorf("%+v", r)
	}
	other := made("second", 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5)
	other.Circuits[0].Reason = 9
	other.Circuits = append(other.Circuits, TraceCircuit{Began: 102}, TraceCircuit{Began: 103}) // their link ended without DESTROY
	other.Requests[0].Form = "GET /tor/hs/3/DIGEST HTTP/1.0"
	other.Links = append(other.Links, other.Links[0], other.Links[0], other.Links[0])
	apart := rowsOf(made("first", 1, 3, 5), other)
	for _, name := range []string{"idle-links", "idle-circuits-left", "idle-reasons", "idle-requests", "idle-consensus"} {
		if r := apart[name]; !r.Different {
			t.Errorf("%s does not differ: %s and %s", name, r.First, r.Second)
		}
	}
	if r := apart["idle-circuits"]; r.Different {
		t.Errorf("circuits are the same: %+v", r)
	}
}

// TestDayRules: the rules of a day's rows at their bounds.
func TestDayRules(t *testing.T) {
	one := func(values ...string) [][]string { return [][]string{values} }
	for _, c := range []struct {
		a, b      [][]string
		r         rule
		different bool
		known     bool
	}{
		{one("10"), one("12"), ratio{1.2, 1}, false, true},
		{one("10"), one("13"), ratio{1.2, 1}, true, true},
		{one("1"), one("2"), ratio{1.2, 1}, false, true}, // few: a number is a better bound
		{one("0"), one("9"), ratio{1.2, 1}, true, true},
		{one(), one("9"), ratio{1.2, 1}, true, false},
		{one("1", "2"), one("1", "2"), spread{2, 0.4}, false, true},
		{one("1", "2"), one("3", "4"), spread{2, 0.4}, true, true},
		{one("1"), one("3", "4"), spread{2, 0.4}, true, false},
		{one(), one(), spread{2, 0.4}, false, true},
	} {
		if d, k := c.r.differ(c.a, c.b); k != c.known || k && d != c.different {
			t.Errorf("%v: %v and %v: %v, known %v", c.r, c.a, c.b, d, k)
		}
	}
}

// TestDayStart: a service that begins before its client's clock lets it, does something between its seconds, or drops what it does not
// need, differs.
func TestDayStart(t *testing.T) {
	service := func(subject string, after float64, spares int, tick func(i int) float64) *Trace {
		out := made(subject, 1, 3, 5)
		out.Role = dayService
		at := out.start() + after
		for range spares {
			out.Circuits = append(out.Circuits, TraceCircuit{Began: at, Asked: 4, Relays: []int{1, 2, 3, 4}})
		}
		out.Circuits = append(out.Circuits, TraceCircuit{Began: at, Asked: 4, Said: []string{"ESTABLISH_INTRO"}})
		out.Requests = append(out.Requests, TraceRequest{At: at + 1, Form: "POST /tor/hs/3/publish HTTP/1.0"})
		for i := range 40 {
			out.Circuits = append(out.Circuits, TraceCircuit{Began: at + 100 + tick(i), Asked: 3})
		}
		return out
	}
	whole := func(i int) float64 { return float64(i) }
	first := service("first", 2, 4, whole)
	for _, c := range []struct {
		second *Trace
		differ []string
	}{
		{service("second", 2.3, 4, whole), nil},
		{service("second", 0.2, 0, func(i int) float64 { return 1.1 * float64(i) }), []string{"service-circuits-second", "service-points-start", "service-spares", "service-uploads-start"}},
	} {
		var differ []string
		for _, r := range CompareDay([]*Trace{first, c.second}, "first", "second") {
			switch r.Name {
			case "service-circuits-second", "service-points-start", "service-spares", "service-uploads-start", "service-directory-relays":
				if r.Unknown {
					t.Errorf("%s is unknown", r.Name)
				}
				if r.Different {
					differ = append(differ, r.Name)
				}
			}
		}
		slices.Sort(differ)
		if !slices.Equal(differ, c.differ) {
			t.Errorf("%v differ, not %v", differ, c.differ)
		}
	}
}

// TestDayWrite: the simulator gets a host for each client, the recording relays, the authorities that know them, and
// no directory of before.
func TestDayWrite(t *testing.T) {
	d := &Day{Tor: "/bin/tor", Lab: "/bin/chivelab", Clients: 1, Before: time.Hour, Time: 2 * time.Hour, Seed: 3,
		Subjects: [2]Subject{{Name: "first", Command: []string{"/bin/tor"}}, {Name: "second", Command: []string{"/bin/chivelab", "tor"}, Chive: true}}}
	one, err := rsa.GenerateKey(rand.Reader, 1024) // real ones for all take long
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	d.relayKey = func() (*rsa.PrivateKey, error) { return one, nil }
	d.authorityKeys = func(string, string) (*authority.Keys, error) {
		made++
		id := fmt.Sprintf("%040X", made)
		return &authority.Keys{V3Ident: id, RSA: id, Ed25519: base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{byte(made)}, 32))}, nil
	}
	dir := filepath.Join(t.TempDir(), "day")
	if err := d.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "shadow.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c dayConfig
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Hosts) != 3+1+1+1+2*len(dayRoles) || c.General.StopTime != "10805 s" {
		t.Errorf("%d hosts until %s", len(c.Hosts), c.General.StopTime)
	}
	addrs := map[string]bool{}
	for name, h := range c.Hosts {
		if addrs[h.Addr] {
			t.Errorf("%s has the address of another", name)
		}
		addrs[h.Addr] = true
	}
	torrc, err := os.ReadFile(filepath.Join(dir, "template", "hosts", "idle10", "torrc"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(torrc), "FallbackDir "); n != dayRelays+dayExits {
		t.Errorf("%d fallbacks", n)
	}
	if n := strings.Count(string(torrc), "DirAuthority "); n != 3 {
		t.Errorf("%d authorities", n)
	}
	if err := d.Write(dir); err == nil {
		t.Error("it writes into a directory that is there")
	}
}
