package lab_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// TestReachable: after a reload the client's first hop is a relay that the firewall lets
// through, and without one it fails, and says why.
func TestReachable(t *testing.T) {
	nw := start(t, lab.Options{Relays: 3, Exits: 2, Authorities: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	with := func(rules ...string) {
		t.Helper()
		cfg := nw.Client.Config()
		cfg.ReachableAddresses = rules
		if err := nw.Client.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nw.Nodes() {
		if n.Role != lab.Relay {
			continue
		}
		with("reject *6:*", n.ORPort)
		for range 2 {
			f, err := nw.Fetch(ctx, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if f.Path[0].Name != n.Name {
				t.Errorf("the first hop is %s, and only %s can be reached", f.Path[0].Name, n.Name)
			}
		}
	}
	with("192.0.2.0/24")
	if _, err := nw.Client.DialContext(ctx, "tcp", "127.0.0.1:80"); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), "configuration") {
		t.Errorf("no relay can be reached: %v", err)
	}
	with()
	if _, err := nw.Fetch(ctx, 1000); err != nil {
		t.Error("without the firewall:", err)
	}
}

// TestNothingReachable: a client that may connect to nobody says so from its first
// moment on.
func TestNothingReachable(t *testing.T) {
	nw := start(t, lab.Options{Relays: 2, Exits: 1, Authorities: 1})
	cfg := nw.Client.Config()
	cfg.DataDir, cfg.ReachableAddresses = t.TempDir(), []string{"192.0.2.0/24:443"}
	c, err := chive.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events, stop := c.Events()
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for problem := c.Status().Bootstrap.Problem; !strings.Contains(problem, "ReachableAddresses"); {
		select {
		case e := <-events:
			if b, ok := e.(*chive.BootstrapEvent); ok {
				problem = b.Problem
			}
		case <-ctx.Done():
			t.Fatalf("%+v", c.Status().Bootstrap)
		}
	}
	if n := c.Status().Channels; n != 0 {
		t.Errorf("%d channels", n)
	}
}

// TestMapAddress: a name and a whole domain stand for the target, until a reload.
func TestMapAddress(t *testing.T) {
	nw := start(t, lab.Options{Relays: 2, Exits: 1, Authorities: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	host, port, _ := strings.Cut(strings.TrimPrefix(nw.URL(1), "http://"), ":")
	port, _, _ = strings.Cut(port, "/")
	cfg := nw.Client.Config()
	cfg.MapAddress = []string{"target.example " + host, "*.domain.example target.example"}
	if err := nw.Client.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"target.example", "TARGET.example.", "a.b.domain.example"} {
		conn, err := nw.Client.DialContext(ctx, "tcp", name+":"+port)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		conn.Close()
		if got, err := nw.Client.Resolve(ctx, name); err != nil || len(got) != 1 || got[0].String() != host {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	cfg.MapAddress = []string{"a.example b.example", "b.example a.example"}
	if err := nw.Client.Reload(cfg); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("a circle: %v", err)
	}
}

// TestCountriesReload: relays are chosen by their countries, the state shows these, and a
// reload reads the file again.
func TestCountriesReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "geoip")
	here := func(country string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("2130706432,2147483647,"+country+"\n2147483648,2147483648,FR\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here("DE")
	six := file + "6"
	if err := os.WriteFile(six, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nw := start(t, lab.Options{Relays: 3, Exits: 1, Authorities: 1,
		Client: chive.Config{EntryNodes: []string{"{de}"}, ExitNodes: []string{"{de}"}, StrictNodes: true, GeoIPFile: file, GeoIPv6File: six}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f, err := nw.Fetch(ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Path) != 3 {
		t.Errorf("%d hops", len(f.Path))
	}
	open := nw.Client.Status().Open
	for _, c := range open {
		if strings.Join(c.Countries, " ") != strings.TrimSpace(strings.Repeat("de ", len(c.Path))) {
			t.Errorf("%d relays in %q", len(c.Path), c.Countries)
		}
	}
	if len(open) == 0 {
		t.Error("no circuit is open")
	}
	here("AT")
	if err := nw.Client.Reload(nw.Client.Config()); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), "{de}") {
		t.Errorf("the country is gone: %v", err)
	}
	cfg := nw.Client.Config()
	cfg.EntryNodes, cfg.ExitNodes, cfg.ExcludeNodes = nil, []string{"{fr}"}, nil
	if err := nw.Client.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Client.DialContext(ctx, "tcp", "127.0.0.1:80"); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("an exit in a country that has none: %v", err)
	}
	cfg.ExitNodes, cfg.ExcludeNodes = nil, []string{"{at}"}
	if err := nw.Client.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Client.DialContext(ctx, "tcp", "127.0.0.1:80"); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("all relays are in the country that is excluded: %v", err)
	}
	// A MaxMind database takes the file's place, under the same name.
	maxmind := func(country string) {
		t.Helper()
		db, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-Country", IncludeReservedNetworks: true})
		if err != nil {
			t.Fatal(err)
		}
		_, loopback, err := net.ParseCIDR("127.0.0.0/8")
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Insert(loopback, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.WriteTo(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	maxmind("NL")
	cfg.ExitNodes, cfg.ExcludeNodes = []string{"{nl}"}, nil
	if err := nw.Client.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Fetch(ctx, 1000); err != nil {
		t.Error(err)
	}
	maxmind("AT")
	if err := nw.Client.Reload(cfg); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), "{nl}") {
		t.Errorf("the country is gone from the database: %v", err)
	}
	if err := os.Truncate(file, 300); err != nil {
		t.Fatal(err)
	}
	if err := nw.Client.Reload(cfg); !errors.Is(err, chive.ErrConfig) || !strings.Contains(err.Error(), file+": ") {
		t.Errorf("half a database: %v", err)
	}
	cfg.ExitNodes, cfg.ExcludeNodes = nil, nil
	if err := nw.Client.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := nw.Fetch(ctx, 1000); err != nil {
		t.Error(err)
	}
	for _, c := range nw.Client.Status().Open {
		if c.Countries != nil {
			t.Error("countries are known, and nobody asks for them")
		}
	}
}
