package socks

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestSocketsOfOthersStay: a socket is replaced only if it is certain that nobody
// serves it. Another program's may be busy, or of another kind. (Other systems than
// Linux refuse connections to a busy socket as they do to a dead one.)
func TestSocketsOfOthersStay(t *testing.T) {
	stay := func(t *testing.T, path string) {
		t.Helper()
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := ListenUnix(path); !fault.Is(err, fault.Config) {
			t.Errorf("took another program's socket: %v, %v", l, err)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("the socket is no longer the other program's: %v", err)
		}
	}
	t.Run("datagrams", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		stay(t, path)
	})
	t.Run("busy", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
		if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Listen(fd, 0); err != nil {
			t.Fatal(err)
		}
		for { // nobody accepts
			c, err := DialUnix(t.Context(), path)
			if err != nil {
				break
			}
			defer c.Close()
		}
		stay(t, path)
	})
}

// TestSocketOfSuccessorStays: a listener whose socket somebody has removed does not remove
// the socket that another program has made in its place.
func TestSocketOfSuccessorStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	c, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal("the successor cannot be reached:", err)
	}
	c.Close()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("its own socket is left:", err)
	}
}

// TestSocketIsNeverOpen: other users cannot reach a socket before its mode is set either.
func TestSocketIsNeverOpen(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	path := filepath.Join(t.TempDir(), "s")
	l, err := private.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// TestSocketOfSystemd: a socket that systemd made may let in no more users than the port's flags do.
func TestSocketOfSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		have, want os.FileMode
		closed     bool
	}{{0o600, 0o600, true}, {0o755, 0o600, true}, {0o666, 0o600, false}, {0o660, 0o600, false}, {0o660, 0o660, true}, {0o666, 0o660, false}, {0o666, 0o666, true}, {0o600, 0o666, true}} {
		if err := os.Chmod(path, c.have); err != nil {
			t.Fatal(err)
		}
		if err := closedTo(path, c.want); (err == nil) != c.closed || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("mode %#o for a port of %#o: %v", c.have, c.want, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := closedTo(path, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
