package appearance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
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
	other.Requests[0].Form = "GET /tor/hs/3/DIGEST HTTP/1.0"
	other.Links = append(other.Links, other.Links[0], other.Links[0], other.Links[0])
	apart := rowsOf(made("first", 1, 3, 5), other)
	for _, name := range []string{"idle-links", "idle-reasons", "idle-requests", "idle-consensus"} {
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

// TestDayWrite: the simulator gets a host for each client, the recording relays, the authorities that know them, and
// no directory of before.
func TestDayWrite(t *testing.T) {
	d := &Day{Tor: "/bin/tor", Lab: "/bin/chivelab", Clients: 1, Before: time.Hour, Time: 2 * time.Hour, Seed: 3,
		Subjects: [2]Subject{{Name: "first", Command: []string{"/bin/tor"}}, {Name: "second", Command: []string{"/bin/chivelab", "tor"}, Chive: true}}}
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
