package socks

import (
	"bufio"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

// TestCutShort: a request that ends at any byte is an error of the protocol, and none is taken for a request.
func TestCutShort(t *testing.T) {
	read4 := func(r *bufio.Reader) error { _, err := readSOCKS4(r); return err }
	read5 := func(r *bufio.Reader) error { _, err := readSOCKS5(r); return err }
	methods := func(r *bufio.Reader) error { _, err := readMethods(r, false); return err }
	login := func(r *bufio.Reader) error { _, _, err := readUserPass(r); return err }
	for _, c := range []struct {
		name, whole string
		read        func(*bufio.Reader) error
	}{
		{"SOCKS 4", "\x01\x00\x50\xc0\x00\x02\x01user\x00", read4}, {"SOCKS 4a", "\x01\x00\x50\x00\x00\x00\x01user\x00a.test\x00", read4},
		{"SOCKS 5, IPv4", "\x01\x00\x01\xc0\x00\x02\x01\x00\x50", read5}, {"SOCKS 5, IPv6", "\x01\x00\x04" + strings.Repeat("\x01", 16) + "\x00\x50", read5},
		{"SOCKS 5, a name", "\x01\x00\x03\x06a.test\x00\x50", read5}, {"methods", "\x02\x00\x02", methods}, {"login", "\x04user\x04pass", login},
	} {
		if err := c.read(bufio.NewReader(strings.NewReader(c.whole))); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for n := range c.whole {
			if err := c.read(bufio.NewReader(strings.NewReader(c.whole[:n]))); !fault.Is(err, fault.Protocol) {
				t.Errorf("%s, %d bytes: %v", c.name, n, err)
			}
		}
	}
	if err := read4(bufio.NewReader(strings.NewReader("\x01\x00\x50\x00\x00\x00\x00user\x00"))); !fault.Is(err, fault.Protocol) {
		t.Errorf("0.0.0.0: %v", err)
	}
}

// TestUserOfSOCKS4: the user name of SOCKS 4 sets streams apart, and no name does not.
func TestUserOfSOCKS4(t *testing.T) {
	read := func(user string) command {
		c, err := readSOCKS4(bufio.NewReader(strings.NewReader("\x01\x00\x50\xc0\x00\x02\x01" + user + "\x00")))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	none := read("").auth
	if a, b := read("a"), read("b"); a.auth == b.auth || a.auth == none || a.auth != isolation.NewAuth("a") || a.user != "a" {
		t.Error("two users, or a user and none, share circuits")
	}
	if none != (command{}).auth {
		t.Error("no user name is one")
	}
}

// TestLongestHosts: the longest name passes, and one more byte does not.
func TestLongestHosts(t *testing.T) {
	part := strings.Repeat("a", 63) + "."
	longest := strings.Repeat(part, 4)[:maxHost]
	if _, err := parseHost(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	for _, s := range []string{"", strings.Repeat(part, 5)[:maxHost+1]} {
		if _, err := parseHost(s); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%d bytes: %v", len(s), err)
		}
	}
}
