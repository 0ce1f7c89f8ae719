package netdir

import (
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/version"
)

func protocols(t *testing.T, s string) protover.Set {
	p, err := protover.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestJudge: each role is judged by its own lists; what is recommended is only advice; and a
// consensus that is older than the program says nothing.
func TestJudge(t *testing.T) {
	day := time.Date(2026, 10, 28, 0, 0, 0, 0, time.UTC)
	have := protocols(t, "Cons=2 Link=4-5")
	old, next := protocols(t, "Cons=2 Link=4"), protocols(t, "Cons=2-3 Link=4")
	for _, c := range []struct {
		name             string
		relay            bool
		at               time.Time
		required, advice protover.Set // of this role; the other role needs everything
		refused          bool
		advised          string
	}{
		{"a client", false, day, old, old, false, ""},
		{"a client that lacks a version", false, day, next, next, true, ""},
		{"advice for a client", false, day, old, next, false, "Cons=3"},
		{"a relay", true, day, old, old, false, ""},
		{"a relay that lacks a version", true, day, next, old, true, ""},
		{"advice for a relay", true, day, old, next, false, "Cons=3"},
		{"an old consensus", true, day.Add(-time.Second), next, next, false, ""},
		{"nothing required", false, day, protover.Set{}, protover.Set{}, false, ""},
	} {
		other := protocols(t, "Cons=63")
		p := &netdoc.Preamble{Lifetime: netdoc.Lifetime{ValidAfter: c.at}, RequiredClient: c.required, RecommendedClient: c.advice, RequiredRelay: other, RecommendedRelay: other}
		if c.relay {
			p.RequiredClient, p.RecommendedClient, p.RequiredRelay, p.RecommendedRelay = other, other, c.required, c.advice
		}
		advised, err := Speaker{Relay: c.relay, Supports: have, Released: day}.Judge(p)
		if fault.Is(err, fault.Refused) != c.refused || advised != c.advised {
			t.Errorf("%s: %v, %q", c.name, err, advised)
		}
	}
	if _, err := (Speaker{}).Judge(&netdoc.Preamble{RequiredClient: next}); err != nil {
		t.Errorf("the zero Speaker: %v", err)
	}
}

// TestRefusalHelps: the refusal says what the network asks for, what lacks, which version this
// is and of which day, and where a newer one is.
func TestRefusalHelps(t *testing.T) {
	s := ThisProgram(true)
	p := &netdoc.Preamble{Lifetime: netdoc.Lifetime{ValidAfter: s.Released}, RequiredRelay: protocols(t, "Cons=2 Relay=2,63")}
	_, err := s.Judge(p)
	if err == nil {
		t.Fatal("no refusal")
	}
	for _, want := range []string{`requires "Cons=2 Relay=2,63" of relays`, `lacks "Relay=63"`, "chive " + version.String(), "of " + PublicOrigin().Date.Format(time.DateOnly), "install a newer version (https://github.com/chivenet/chive)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// TestThisProgram: the program takes part in a network that requires and recommends what the
// authorities of tor 0.4.9.15 do, in every role, and in one that requires of clients what
// only relays do.
func TestThisProgram(t *testing.T) {
	p := &netdoc.Preamble{Lifetime: netdoc.Lifetime{ValidAfter: PublicOrigin().Date},
		RecommendedClient: protocols(t, "Cons=2 Desc=2-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4 HSRend=2 Link=4-5 Microdesc=2-3 Relay=2-6"),
		RecommendedRelay:  protocols(t, "Cons=2 Desc=2-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=2-3 Relay=2-6"),
		RequiredClient:    protocols(t, "Cons=2 Desc=2-3 FlowCtrl=1 HSIntro=5 Link=4 LinkAuth=3 Microdesc=2-3 Relay=2"),
		RequiredRelay:     protocols(t, "Cons=2 Desc=2-3 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=2-3 Relay=2-6")}
	for _, relay := range []bool{false, true} {
		if advised, err := ThisProgram(relay).Judge(p); err != nil || advised != "" {
			t.Errorf("relay %v: %v, %q", relay, err, advised)
		}
	}
}
