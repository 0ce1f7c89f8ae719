package tord

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAllowList: one port's controllers may do what its list says, and another's all; a list that is read again counts
// at once, for those who are connected too, and one with a mistake changes nothing.
func TestAllowList(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("GETINFO version\n")
	r := start(t, "DisableNetwork 1\nControlPort unix:DIR/few AllowList="+list+"\nControlPort unix:DIR/all\n")
	r.out.wait(t, `Opened Control listener connection \(ready\) on \S*/all`)
	few, all := dial(t, "unix", filepath.Join(r.dir, "few")), dial(t, "unix", filepath.Join(r.dir, "all"))
	for _, c := range []*controller{few, all} {
		if got := c.ask("AUTHENTICATE"); got != "250 OK" {
			t.Fatal(got)
		}
	}
	const no = "510 Command filtered"
	is := func(c *controller, ask, begin string) {
		t.Helper()
		if got := c.ask(ask); !strings.HasPrefix(got, begin) {
			t.Errorf("%s: %q, want %q", ask, got, begin)
		}
	}
	is(few, "GETINFO version", "250-version="+Version)
	is(few, "GETINFO uptime", no)
	is(few, "SETCONF ControlPort=0", no)
	is(few, "SIGNAL HALT", no)
	is(all, "GETINFO uptime", "250-uptime=")

	write("GETINFO uptime\n")
	r.signals <- syscall.SIGHUP
	for strings.HasPrefix(few.ask("GETINFO version"), "250") { // until it has been read
	}
	is(few, "GETINFO uptime", "250-uptime=")
	is(all, "GETINFO version", "250-version=")

	write("GETINFO version\n\nBLARG\n")
	is(all, "SIGNAL RELOAD", "250 OK")
	r.out.wait(t, `(?s)was not read again.*list:3: `)
	is(few, "GETINFO uptime", "250-uptime=")
	is(few, "GETINFO version", no)

	for line, want := range map[string]string{
		"ControlPort unix:/a AllowList=list":                       "absolute path",
		"ControlPort unix:/a AllowList=" + list:                    list + ":3: ",
		"ControlPort 9 allowlist=" + dir:                           "no regular file",
		"ControlPort 9 AllowList=" + dir + "/none":                 "no such file",
		"ControlPort 9 AllowList=" + list + "x AllowList=/dev/nul": "no such file",
	} {
		c := conf{}
		key, value, _ := strings.Cut(line, " ")
		if err := c.put(find(key), value); err != nil {
			t.Fatal(err)
		}
		if _, err := planOf(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
