package torrc

import (
	"strings"
	"testing"
)

// TestOtherNames: old names of options lead to options that are there, or that C tor skips, and no name is both.
func TestOtherNames(t *testing.T) {
	for old, today := range otherNames() {
		if old != strings.ToLower(old) || Today(strings.ToUpper(old)) != today {
			t.Errorf("%s: %s", old, Today(strings.ToUpper(old)))
		}
		if _, skipped := Obsolete(today); !skipped && Find(old) == nil {
			t.Errorf("%s is %s, which is nothing", old, today)
		}
		if byName()[old] != nil {
			t.Errorf("%s is an option itself", old)
		}
	}
	for name, spelt := range obsoleteNames() {
		if got, ok := Obsolete(strings.ToUpper(name)); !ok || got != spelt || Find(name) != nil {
			t.Errorf("%s: %s, %v, and the option %v", name, got, ok, Find(name))
		}
	}
	if _, ok := Obsolete("SocksPort"); ok || Today("SocksPort") != "SocksPort" {
		t.Error("SocksPort")
	}
}

// TestTranslateOtherNames: a configuration with old names means what it meant, and what C tor skips does not matter.
func TestTranslateOtherNames(t *testing.T) {
	d := translated1(t, "NumEntryNodes 2\nWarnUnsafeSocks 1\n/MaxConn\nSocksBindAddress x\nhidservauth someone secret\nEntryNode $"+strings.Repeat("A", 40), Proxy)
	got := settings(d)
	if len(got["num-entry-guards"]) != 1 || got["num-entry-guards"][0] != "2" || len(got["entry-nodes"]) != 1 {
		t.Errorf("%v", got)
	}
	said, today := 0, 0
	for _, n := range d.Notes {
		if strings.Contains(n.Line.Value, "secret") {
			t.Errorf("a secret is repeated: %v", n)
		}
		if l := n.Line; l.Key == "/ConnLimit" && n.Same || l.Key == "SocksListenAddress" && n.Same {
			today++
		}
		if strings.HasPrefix(n.Why, "C tor skips") && n.Same {
			said++
		}
	}
	if said != 3 || today != 2 {
		t.Errorf("%+v", d.Notes)
	}
}
