package listen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestFailed: a port that could not be opened is an error in every case, with the address once, the reason,
// and advice where there is some.
func TestFailed(t *testing.T) {
	for _, c := range []struct {
		why  error
		want string // a part of the advice
	}{
		{syscall.EADDRINUSE, "another program"}, {syscall.EADDRNOTAVAIL, "no interface"}, {syscall.EACCES, "need rights"},
		{fs.ErrNotExist, "directory first"}, {syscall.EMFILE, ""},
	} {
		err := Failed("192.0.2.1:80", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", c.why)})
		if !fault.Is(err, fault.Local) || !errors.Is(err, c.why) || strings.Count(err.Error(), "192.0.2.1:80") != 1 {
			t.Errorf("%v: %v", c.why, err)
		} else if text := err.Error(); c.want == "" && strings.HasSuffix(text, ")") || !strings.Contains(text, c.want) {
			t.Errorf("%v: %s", c.why, text)
		}
	}
}
