//go:build unix

package tord

import (
	"os"
	"os/exec"
	"os/user"
	"strings"
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
		if err := becomeUser(name); err != nil {
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
