package inherit

import (
	"io/fs"
	"net"
	"os"
	"sync"
)

// unixListener is a listener whose address is the path that was asked for, and which removes it,
// however the socket was reached, unless systemd made it or a hand-over keeps it.
type unixListener struct {
	*net.UnixListener
	path   string
	made   fs.FileInfo // of the socket; nil: it stays
	remove sync.Once
}

func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *unixListener) Close() error {
	// First, because after Close the path may be another program's. It is already if
	// somebody has removed this socket. If it cannot be removed, the next listener there
	// replaces it.
	l.remove.Do(func() {
		if l.made != nil {
			process.removeUnlessKept(l.removeFile)
		}
	})
	return l.UnixListener.Close()
}

func (l *unixListener) removeFile() {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
		os.Remove(l.path)
	}
}

// removeUnlessKept runs remove, or keeps it for the case that the hand-over does not come about.
func (s *set) removeUnlessKept(remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil {
		s.kept.removes = append(s.kept.removes, remove)
		return
	}
	remove()
}

// Unix returns the listener of a unix socket that was handed over; nil: it was not. If it is fixed, systemd
// has made the socket's file, and says who may connect.
func Unix(path string) (l net.Listener, fixed bool) {
	h := process.find("unix", path)
	if h == nil {
		return nil, false
	}
	out := &unixListener{UnixListener: h.conn.(*net.UnixListener), path: path}
	if !h.fixed {
		var err error
		if out.made, err = os.Lstat(path); err != nil { // somebody has removed it: nobody can connect any more
			out.Close()
			return nil, false
		}
	}
	return out, h.fixed
}

// OwnUnix returns a listener with the address path, whose Close removes the socket's file. l is open there,
// and leaves the file alone.
func OwnUnix(path string, l *net.UnixListener) (net.Listener, error) {
	made, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	process.remember("unix", path, l, false)
	return &unixListener{UnixListener: l, path: path, made: made}, nil
}
