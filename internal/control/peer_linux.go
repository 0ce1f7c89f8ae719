package control

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// TellsUser says whether this system tells whose program has connected to a unix socket.
const TellsUser = true

// userOf returns the user whose program has connected.
func userOf(c net.Conn) (int, error) {
	switch c := c.(type) {
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return 0, err
		}
		var cred *unix.Ucred
		var failed error
		if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
			return 0, err
		}
		if failed != nil {
			return 0, failed
		}
		return int(cred.Uid), nil
	case *net.TCPConn:
		from, ok1 := c.RemoteAddr().(*net.TCPAddr)
		to, ok2 := c.LocalAddr().(*net.TCPAddr)
		if ok1 && ok2 {
			return userOfTCP(from, to)
		}
	}
	return 0, errUnknownUser
}

// errGone says that nobody holds the other end any more. Its commands may be here already, but whose they are
// is not to be learnt: the kernel gives such a socket to root, or to nobody.
var errGone = errors.New("the program that connected has gone")

// userOfTCP finds the other end of a connection within this machine in the kernel's lists of sockets. A socket
// of IPv6 can reach a port of IPv4, and is in the other list then.
func userOfTCP(from, to *net.TCPAddr) (int, error) {
	if from.IP.To4() != nil {
		if uid, err := ownerIn("/proc/net/tcp", hex4(from)+" "+hex4(to)); !errors.Is(err, errGone) {
			return uid, err
		}
	}
	return ownerIn("/proc/net/tcp6", hex6(from)+" "+hex6(to))
}

// ownerIn finds the user of a socket in one of the kernel's lists. A machine without IPv6 has no list of it.
func ownerIn(file, ends string) (int, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errGone
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) < 10 || w[1]+" "+w[2] != ends {
			continue
		}
		if w[9] == "0" { // no inode: no program has it open
			return 0, errGone
		}
		return strconv.Atoi(w[7])
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errGone
}

// hex4 and hex6 write an address as the kernel does: in words of four bytes, each in the order of the
// machine, which is little-endian on all that Chive runs on.
func hex4(a *net.TCPAddr) string { return hexWords(a.IP.To4(), a.Port) }
func hex6(a *net.TCPAddr) string { return hexWords(a.IP.To16(), a.Port) }

func hexWords(ip net.IP, port int) string {
	var b strings.Builder
	for i := 0; i < len(ip); i += 4 {
		fmt.Fprintf(&b, "%02X%02X%02X%02X", ip[i+3], ip[i+2], ip[i+1], ip[i])
	}
	return fmt.Sprintf("%s:%04X", b.String(), port)
}
