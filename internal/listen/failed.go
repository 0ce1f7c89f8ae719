package listen

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
)

// Failed returns the error for an address at which no port could be opened: it names the
// address once, says why, and what to do. It is of kind fault.Local, as the same may succeed
// another time.
func Failed(addr string, err error) error {
	why := fault.Why(err)
	for _, c := range []struct {
		is     []error
		advice string
	}{
		{[]error{syscall.EADDRINUSE, syscall.Errno(10048)}, "another program has this port: end it, or choose another port"},
		{[]error{syscall.EADDRNOTAVAIL, syscall.Errno(10049)}, "no interface of this machine has this address"},
		{[]error{fs.ErrPermission}, "ports below 1024, and sockets in others' directories, need rights"},
		{[]error{fs.ErrNotExist}, "make the socket's directory first"},
	} {
		for _, is := range c.is { // the numbers are Windows', and no other system's
			if errors.Is(why, is) {
				return fault.New(fault.Local, "listen at %s: %w (%s)", addr, why, c.advice)
			}
		}
	}
	return fault.New(fault.Local, "listen at %s: %w", addr, why)
}
