package netdir

import (
	"testing"
	"time"
)

// TestPublicList: the list is the one of the newest release of C tor that somebody has looked
// at (make public-network). The authorities are the same as since 0.4.9.8; relays of the list
// are known to run at that time.
func TestPublicList(t *testing.T) {
	o := PublicOrigin()
	if o.Tor != "0.4.9.15" || o.Date.Format(time.DateOnly) != "2026-10-28" {
		t.Errorf("the list is of tor %s, %v", o.Tor, o.Date)
	}
	n := Public()
	first, last := n.Fallbacks[0], n.Fallbacks[len(n.Fallbacks)-1]
	if first.RSA.String() != "D049A6601302014C5C3362BD856A847D52CE2148" || first.ORPorts[0].String() != "96.9.98.172:443" ||
		last.RSA.String() != "6AFE8F611B5F032AED929743B0FB56C46234DE6C" || last.ORPorts[0].String() != "147.182.191.7:9001" {
		t.Errorf("the list of fallback directories is from %+v to %+v", first, last)
	}
}

// TestListAge: a list is old after a year.
func TestListAge(t *testing.T) {
	o := Origin{Date: time.Date(2026, 10, 28, 0, 0, 0, 0, time.UTC)}
	for days, want := range map[int]bool{0: false, 364: false, 366: true} {
		if o.Old(o.Date.AddDate(0, 0, days)) != want {
			t.Errorf("after %d days: %v", days, !want)
		}
	}
}

// TestListWithoutOrigin: a list says once from which tor it is.
func TestListWithoutOrigin(t *testing.T) {
	const from = "from tor 0.4.9.15 2026-10-28\n"
	for text, want := range map[string]bool{"": false, from: true, from + from: false} {
		if _, _, err := parsePublic(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
