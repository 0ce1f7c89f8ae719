package interop

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// established is TCP_ESTABLISHED as /proc/net/tcp writes it.
const established = "01"

// conn is an established TCP connection of a process.
type conn struct{ local, remote netip.AddrPort }

// connsOf returns the process's established TCP connections, as the kernel lists
// them.
func connsOf(pid int) ([]conn, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		link, err := os.Readlink(dir + "/" + fd.Name())
		if err != nil {
			continue // closed since it was listed
		}
		if s, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(s, "]")] = true
		}
	}
	var out []conn
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != established || !inodes[f[9]] {
				continue
			}
			local, err := kernelAddr(f[1])
			if err != nil {
				return nil, err
			}
			remote, err := kernelAddr(f[2])
			if err != nil {
				return nil, err
			}
			out = append(out, conn{local, remote})
		}
	}
	return out, nil
}

// kernelAddr reads an address of /proc/net/tcp: 32-bit words in the machine's
// byte order (little endian on every machine that this runs on), then the port.
func kernelAddr(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("kernel address %q", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	a, ok := netip.AddrFromSlice(b)
	p, err := strconv.ParseUint(port, 16, 16)
	if err != nil || !ok {
		return netip.AddrPort{}, fmt.Errorf("kernel address %q", s)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), nil
}

// TestConnsOf: both ends of a connection are known.
func TestConnsOf(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue // no IPv6
		}
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want := conn{netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())}
		got, err := connsOf(os.Getpid())
		if err != nil || !slices.Contains(got, want) {
			t.Errorf("%v lacks %v (%v)", got, want, err)
		}
	}
}
