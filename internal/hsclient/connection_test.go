package hsclient

import (
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestLeaseHost: streams to a service share the memory of its name, and each keeps the
// name that it was given.
func TestLeaseHost(t *testing.T) {
	m := &connection{c: &Client{}}
	a, b := (&Lease{conn: m}).Host(strings.Clone("x.onion")), (&Lease{conn: m}).Host(strings.Clone("x.onion"))
	if a != "x.onion" || unsafe.StringData(a) != unsafe.StringData(b) {
		t.Errorf("%q and %q do not share their memory", a, b)
	}
	if c := (&Lease{conn: m}).Host("X.onion"); c != "X.onion" {
		t.Errorf("X.onion became %q", c)
	}
}

// TestReleaseOnce: a lease that is released twice is one use less, not two.
func TestReleaseOnce(t *testing.T) {
	c := &Client{cfg: Config{Idle: func() time.Duration { return time.Hour }}}
	m := &connection{c: c, users: 3}
	l := &Lease{conn: m}
	l.Release()
	l.Release()
	if m.users != 2 {
		t.Errorf("%d uses are left of 2", m.users)
	}
}
