package daemon

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// TestOldNetworkList: a process that uses the built-in list warns of it after a year, and one
// with a network file never does.
func TestOldNetworkList(t *testing.T) {
	from := netdir.PublicOrigin().Date
	for _, c := range []struct {
		file string
		now  time.Time
		want bool
	}{
		{"", from.AddDate(0, 11, 0), false}, {"", from.AddDate(1, 0, 1), true}, {"net.toml", from.AddDate(9, 0, 0), false},
	} {
		var b strings.Builder
		(&Common{NetworkFile: c.file}).warnOld(slog.New(slog.NewTextHandler(&b, nil)), c.now)
		if got := strings.Contains(b.String(), "install a newer version"); got != c.want || got && !strings.Contains(b.String(), "of="+from.Format(time.DateOnly)) {
			t.Errorf("%q at %v: %q", c.file, c.now, b.String())
		}
	}
}

// TestStartWarnsOfOldList: the warning is part of the start of every command that has a client.
func TestStartWarnsOfOldList(t *testing.T) {
	for name, s := range map[string]*Settings{"proxy": NewProxySettings(), "client": NewClientSettings(), "onion": NewOnionSettings(new([]string)), "relay": NewRelaySettings()} {
		var b strings.Builder
		s.warnAt(slog.New(slog.NewTextHandler(&b, nil)), netdir.PublicOrigin().Date.AddDate(2, 0, 0))
		if n := strings.Count(b.String(), "install a newer version"); n != 1 {
			t.Errorf("%s: %d warnings: %q", name, n, b.String())
		}
	}
}

// TestStatusNamesList: the status says which list the process uses, for people and programs.
func TestStatusNamesList(t *testing.T) {
	for file, want := range map[string]string{"": builtIn().Date, "net.toml": ""} {
		text, err := json.Marshal(proxyReport{rolePrefix: isA("proxy", (&Common{NetworkFile: file}).list())})
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseReport(text)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		r.Print(&b, time.Now())
		if got := strings.Contains(b.String(), "addresses  of tor "); got != (want != "") || !strings.Contains(b.String(), want) || strings.Contains(string(text), "network_list") != got {
			t.Errorf("%q: %s, %s", file, text, b.String())
		}
	}
}
