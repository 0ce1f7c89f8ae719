//go:build unix

package tord

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"syscall"
	"testing"
)

// asNobody is set for a process of TestBecomeUser.
const asNobody = "CHIVE_TEST_BECOME"

// TestBecomeUser: who is root becomes the user for good, knows it, and takes the same option again.
func TestBecomeUser(t *testing.T) {
	if name := os.Getenv(asNobody); name != "" {
		was, err := user.Current() // it is remembered
		if err != nil {
			t.Fatal(err)
		}
		if err := becomeUser(name, false); err != nil {
			t.Fatal(err)
		}
		now, err := currentUser()
		if err != nil || now.Username != name || was.Username == name || os.Getuid() == 0 || os.Getegid() == 0 || os.Getenv("HOME") != now.HomeDir {
			t.Errorf("%v %v %d %d %s", now, err, os.Getuid(), os.Getegid(), os.Getenv("HOME"))
		}
		groups, err := os.Getgroups()
		for _, g := range groups {
			if g == 0 || err != nil {
				t.Error(groups, err)
			}
		}
		if err := checkUser(name); err != nil {
			t.Error(err)
		}
		if err := checkUser(was.Username); err == nil || !strings.Contains(err.Error(), "others cannot become it") {
			t.Error(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can become another user")
	}
	if err := checkUser("nobody-of-that-name"); err == nil {
		t.Error("a user that is not there was accepted")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBecomeUser$", "-test.v")
	cmd.Env = append(os.Environ(), asNobody+"=nobody")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestBecomeUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

// asBinder is set for a process of TestKeepBinding.
const asBinder = "CHIVE_TEST_BIND"

// TestKeepBinding: who is root becomes the user for good, and can open a port below 1024; without that, it cannot. Root's files stay closed.
func TestKeepBinding(t *testing.T) {
	if low := os.Getenv(asBinder); low != "" {
		if err := becomeUser("nobody", low == "1"); err != nil {
			t.Fatal(err)
		}
		opened := false
		for port := 1; port < 1024 && !opened; port++ { // others may have some
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if opened = err == nil; opened {
				l.Close()
			}
		}
		if opened != (low == "1") {
			t.Errorf("it has opened a port: %v", opened)
		}
		if f, err := os.Open("/etc/shadow"); err == nil {
			f.Close()
			t.Error("it reads root's files")
		}
		return
	}
	if os.Geteuid() != 0 || !canKeepBinding {
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root of Linux can become another user and keep this")
	}
	for _, low := range []string{"0", "1"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKeepBinding$", "-test.v")
		cmd.Env = append(os.Environ(), asBinder+"="+low)
		out, err := cmd.CombinedOutput()
		if low == "1" && strings.Contains(string(out), syscall.ENOTSUP.Error()) {
			t.Skip("SKIPPED, NOTHING WAS TESTED: this test has C code in it (CGO_ENABLED=1)")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestKeepBinding") {
			t.Errorf("%s: %v\n%s", low, err, out)
		}
	}
}

// TestKeepsBinding: a configuration with a port below 1024 keeps the capability for it, unless it says otherwise.
func TestKeepsBinding(t *testing.T) {
	for _, x := range []struct {
		c    conf
		want bool
	}{
		{conf{}, false}, {conf{"ORPort": {"443"}}, canKeepBinding}, {conf{"ORPort": {"9001", "[2001:db8::1]:443 NoAdvertise"}}, canKeepBinding},
		{conf{"DNSPort": {"127.0.0.1:53"}}, canKeepBinding}, {conf{"__SocksPort": {"80"}}, canKeepBinding}, {conf{"ControlPort": {"unix:/a:80"}}, false},
		{conf{"ORPort": {"auto", "0", "1024", "192.0.2.1:9001"}}, false}, {conf{"ORPort": {"443"}, keepBindOption: {"0"}}, false},
		{conf{keepBindOption: {"1"}}, true},
	} {
		if got := x.c.keepsBinding(); got != x.want {
			t.Errorf("%v: %v", x.c, got)
		}
	}
}

// TestSyslogLine: the system's log gets each line by its severity, without a time.
func TestSyslogLine(t *testing.T) {
	for line, want := range map[string]string{
		"Nov 29 04:04:35.742 [notice] a [b] c\n": "notice [notice] a [b] c", "Nov 29 04:04:35.742 [warn] x\n": "warn [warn] x",
		"Nov 29 04:04:35.742 [err] x\n": "err [err] x", "Nov 29 04:04:35.742 [info] x\n": "info [info] x", "(3 lines are lost)\n": "info (3 lines are lost)",
	} {
		got := ""
		put := func(name string) func(string) error {
			return func(s string) error { got = name + " " + s; return nil }
		}
		s := severities{err: put("err"), warn: put("warn"), notice: put("notice"), info: put("info")}
		if err := s.put(line); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", line, got, err, want)
		}
	}
}
