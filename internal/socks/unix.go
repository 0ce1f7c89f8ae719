package socks

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
	"github.com/chivenet/chive/internal/listen"
)

// maxUnixPath is how long the path of a unix socket may be, in bytes: what
// Linux has room for in an address, less the zero that ends it.
const maxUnixPath = 107

// ListenUnix opens a unix socket that only this user can connect to, and
// replaces a socket that nobody serves. It refuses to replace any other file,
// and a socket in use. On Linux the path may be as long as a file's; to
// connect to one of more than 107 bytes, use [DialUnix].
func ListenUnix(path string) (net.Listener, error) { return listenUnix(path, onlyUnix) }

// listenUnix is ListenUnix for a socket of another mode, or takes over one that is open already.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	l, fixed := inherit.Unix(path)
	var err error
	switch {
	case l == nil:
		return openUnix(path, mode)
	case fixed:
		err = closedTo(path, mode)
	default:
		if err = os.Chmod(path, mode); err != nil {
			err = listen.Failed(path, err)
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// closedTo reports whether the file of a socket lets more users connect than mode does.
func closedTo(path string, mode fs.FileMode) error {
	st, err := os.Stat(path)
	if err != nil {
		return listen.Failed(path, err)
	}
	const connect = 0o022 // of other users
	if st.Mode().Perm()&^mode&connect != 0 {
		return fault.New(fault.Config, "the socket %s, which systemd made, has the mode %#o and lets more users connect than the port does: set SocketMode=%#o in its unit, or give the port the flag GroupWritable or WorldWritable", path, st.Mode().Perm(), mode)
	}
	return nil
}

func openUnix(path string, mode fs.FileMode) (net.Listener, error) {
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
	var own net.Listener
	if err = os.Chmod(path, mode); err == nil {
		own, err = inherit.OwnUnix(path, l)
	}
	if err != nil {
		l.Close()
		return nil, listen.Failed(path, err)
	}
	return own, nil
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
