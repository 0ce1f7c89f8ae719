//go:build unix

package fte

import (
	"syscall"
	"testing"
)

// descriptors returns how many files this process may open, after asking for
// as many as the tests can use. Only root gets more than the hard limit.
func descriptors(t *testing.T) int {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if more := (syscall.Rlimit{Cur: 12_000, Max: max(l.Max, 12_000)}); l.Cur < more.Cur && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
		l = more
	}
	return int(min(l.Cur, 1<<20))
}
