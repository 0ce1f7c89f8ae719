package socks

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
)

// maxUnixPath is how long the path of a unix socket may be, in bytes: what
// Linux has room for in an address, less the zero that ends it.
const maxUnixPath = 107

// unixListener is a listener whose address is the path that was asked for, and
// which removes it, however the socket was reached.
type unixListener struct {
	*net.UnixListener
	path   string
	made   fs.FileInfo // of the socket
	remove sync.Once
}

func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *unixListener) Close() error {
	// First, because after Close the path may be another program's. It is already if
	// somebody has removed this socket. If it cannot be removed, the next listener there
	// replaces it.
	l.remove.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// ListenUnix opens a unix socket that only this user can connect to, and
// replaces a socket that nobody serves. It refuses to replace any other file,
// and a socket in use. On Linux the path may be as long as a file's; to
// connect to one of more than 107 bytes, use [DialUnix].
func ListenUnix(path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fault.New(fault.Config, "listen at %s: it exists and is not a socket", path)
		}
		c, err := DialUnix(context.Background(), path)
		if err == nil {
			c.Close()
			return nil, fault.New(fault.Config, "listen at %s: another program serves it", path)
		}
		if !unserved(err) {
			return nil, fault.New(fault.Config, "listen at %s: another program may serve it: %w", path, fault.Why(err))
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.Local, "listen at %s: the socket of a program that ended stays: %w", path, fault.Why(err))
		}
	}
	short, release, err := shortUnix(path)
	if err != nil {
		return nil, listen.Failed(path, err)
	}
	defer release()
	opened, err := private.Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, listen.Failed(path, err)
	}
	l := opened.(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	err = os.Chmod(path, 0o600)
	var made fs.FileInfo
	if err == nil {
		made, err = os.Lstat(path)
	}
	if err != nil {
		l.Close()
		return nil, listen.Failed(path, err)
	}
	return &unixListener{UnixListener: l, path: path, made: made}, nil
}

// unserved reports whether connecting to a socket failed because nobody serves it. A
// socket of datagrams, one whose program is too busy to accept, and one of another user
// fail in other ways.
func unserved(err error) bool {
	const onWindows = syscall.Errno(10061) // no number of another system
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, onWindows) || errors.Is(err, fs.ErrNotExist)
}

// DialUnix connects to a unix socket, whose path may be as long as for
// [ListenUnix].
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, release, err := shortUnix(path)
	if err != nil {
		return nil, fault.New(fault.Local, "connect to %s: %w", path, fault.Why(err))
	}
	defer release()
	c, err := new(net.Dialer).DialContext(ctx, "unix", short)
	if err != nil {
		return nil, fault.New(fault.Local, "connect to %s: %w", path, fault.Why(err))
	}
	return c, nil
}
