package tord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDormantStart: a program begins as it ended, dormant or not, and DormantOnFirstStartup and DormantCanceledByStartup count as in
// C tor. A launcher sees the first step of the bootstrap, and further ones when it says ACTIVE.
func TestDormantStart(t *testing.T) {
	data := t.TempDir()
	run := func(options string, dormant bool, commands ...string) {
		t.Helper()
		r := start(t, deadNetwork+"SocksPort 0\nControlPort unix:DIR/s\n"+options, "--DataDirectory", data)
		r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
		if dormant {
			r.out.wait(t, `Bootstrapped 0% \(starting\): Starting\n`)
		} else {
			r.out.wait(t, `Bootstrapped 5% \(conn\): Connecting to a relay\n`)
		}
		c := dial(t, "unix", r.dir+"/s")
		c.want("AUTHENTICATE", "250 OK")
		if dormant {
			c.want("GETINFO dormant status/bootstrap-phase", "250-dormant=1\n250-status/bootstrap-phase=NOTICE BOOTSTRAP PROGRESS=0 TAG=starting SUMMARY=\"Starting\"\n250 OK")
		} else {
			c.want("GETINFO dormant", "250-dormant=0\n250 OK")
		}
		for _, command := range commands {
			c.want(command, "250 OK")
		}
		if len(commands) > 0 && commands[len(commands)-1] == "SIGNAL ACTIVE" {
			r.out.wait(t, `Bootstrapped 5% \(conn\): Connecting to a relay\n`)
			c.want("GETINFO dormant", "250-dormant=0\n250 OK")
		}
		c.want("SIGNAL HALT", "250 OK")
		if code := <-r.code; code != exitOK {
			t.Errorf("%s: code %d", options, code)
		}
	}
	run("DormantOnFirstStartup 1\nDormantTimeoutEnabled 0\n", false)
	if err := os.Remove(filepath.Join(data, restFileName)); err != nil {
		t.Fatal(err)
	}
	run("DormantOnFirstStartup 1\n", true)
	run("", true)
	run("DormantCanceledByStartup 1\n", false, "SIGNAL DORMANT")
	run("DisableNetwork 0\n", true, "SIGNAL ACTIVE")
	run("DormantOnFirstStartup 1\n", false, "SIGNAL DORMANT", "SETCONF DisableNetwork=1", "SIGNAL ACTIVE", "SIGNAL DORMANT", "SIGNAL ACTIVE", "SETCONF DisableNetwork=0")
	run("", false)
}

// TestRestFile: what the file says counts, and one that says nothing that can be has the client be awake.
func TestRestFile(t *testing.T) {
	at := filepath.Join(t.TempDir(), restFileName)
	for text, want := range map[string]*rest{
		`{"dormant": true, "minutes_unused": 0}`:   {Dormant: true},
		`{"dormant": false, "minutes_unused": 90}`: {Minutes: 90},
		"": nil,
		`{"dormant": false, "minutes_unused": -1}`:          nil,
		`{"dormant": false, "minutes_unused": 99999999999}`: nil,
		`{"dormant": 1}`: nil,
		`{"dormant": true}` + strings.Repeat(" ", 2<<10):     nil,
		`{"dormant": true, "minutes_unused": 1} and further`: nil,
	} {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (&restFile{path: at}).read()
		if (want == nil) != (err != nil) || want != nil && *got != *want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	if got, err := (&restFile{path: at + "none"}).read(); got != nil || err != nil {
		t.Error(got, err)
	}
}
