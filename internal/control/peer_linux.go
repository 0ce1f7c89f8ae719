package control

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// userOfTCP finds the other end of a connection within this machine in the kernel's list of sockets.
func userOfTCP(from, to *net.TCPAddr) (int, error) {
	file, want := "/proc/net/tcp", ""
	if from.IP.To4() != nil {
		want = hex4(from) + " " + hex4(to)
	} else {
		file, want = "/proc/net/tcp6", hex6(from)+" "+hex6(to)
	}
	f, err := os.Open(file)
	if err != nil {
		return 0, errUnknownUser
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) > 7 && w[1]+" "+w[2] == want {
			uid, err := strconv.Atoi(w[7])
			if err != nil {
				break
			}
			return uid, nil
		}
	}
	return 0, errUnknownUser
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
