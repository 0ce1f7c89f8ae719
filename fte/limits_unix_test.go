//go:build unix

package fte

import (
	"syscall"
	"testing"
)

// descriptors returns how many files this process may open.
func descriptors(t *testing.T) int {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	return int(min(l.Cur, 1<<20))
}
