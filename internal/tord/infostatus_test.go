package tord

import (
	"regexp"
	"testing"
)

// TestInfoStatus: keys that monitors ask for have C tor's answers of a client without a network.
func TestInfoStatus(t *testing.T) {
	r := start(t, deadNetwork+"SocksPort auto\nControlSocket DIR/s\n")
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	c := dial(t, "unix", r.dir+"/s")
	c.want("AUTHENTICATE", "250 OK")
	for _, x := range [][2]string{
		{"GETINFO accounting/bytes desc/all-recent desc/download-enabled", "250-accounting/bytes=0 0\n250-desc/all-recent=\n250-desc/download-enabled=0\n250 OK"},
		{"GETINFO consensus/packages", "551 No consensus available"},
		{"GETINFO exit-policy/default", "250-exit-policy/default=reject *:25,reject *:119,reject *:135-139,reject *:445,reject *:563,reject *:1214,reject *:4661-4666,reject *:6346-6429,reject *:6699,reject *:6881-6999,accept *:*\n250 OK"},
		{"GETINFO status/version/current status/version/recommended", "250-status/version/current=unknown\n250-status/version/recommended=?\n250 OK"},
		{"GETINFO status/reachability-succeeded status/reachability-succeeded/or", "250-status/reachability-succeeded=OR=1 DIR=1\n250-status/reachability-succeeded/or=1\n250 OK"},
		{"GETINFO sr/current sr/previous", "250-sr/current=\n250-sr/previous=\n250 OK"},
		{"GETINFO status/clients-seen", "250-status/clients-seen=TimeStarted=\"1970-01-01 00:00:00\" CountrySummary= IPVersions=v4=0,v6=0\n250 OK"},
	} {
		c.want(x[0], x[1])
	}
	if got := c.ask("GETINFO limits/max-mem-in-queues"); !regexp.MustCompile(`^250-limits/max-mem-in-queues=[1-9]\d+\n250 OK$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	c.want("SETCONF DisableNetwork=1", "250 OK")
	c.want("GETINFO limits/max-mem-in-queues", "551 The network is off: nothing is held")
	c.want("GETINFO consensus/packages", "551 No consensus available")
	c.want("GETINFO network-liveness", "250-network-liveness=down\n250 OK")
}

// TestLiveness: only a change is told.
func TestLiveness(t *testing.T) {
	var l liveness
	for i, x := range [][2]string{{"down", ""}, {"down", ""}, {"up", "UP"}, {"up", ""}, {"down", "DOWN"}, {"up", "UP"}} {
		if got := l.change(x[0]); got != x[1] {
			t.Errorf("%d: %q, want %q", i, got, x[1])
		}
	}
}
