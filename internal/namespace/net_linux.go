package namespace

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// genModeNone is IN6_ADDR_GEN_MODE_NONE of <linux/if_link.h>.
const genModeNone = 1

// device is the name of the TUN device.
const device = "tun0"

// makeTUN makes the device, in this network namespace.
func makeTUN() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	r, err := unix.NewIfreq(device)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make a TUN device: %w", err)
	}
	return fd, nil
}

// configure gives the device its addresses, and leads all packets to it.
func configure(addrs []netip.Addr, mtu int) error {
	nl, err := dialNetlink()
	if err != nil {
		return err
	}
	defer nl.close()
	lo, err := index("lo")
	if err != nil {
		return err
	}
	tun, err := index(device)
	if err != nil {
		return err
	}
	// No address of its own making, and no questions about neighbours.
	spec := attr(unix.IFLA_AF_SPEC, attr(unix.AF_INET6, attr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{genModeNone})))
	_ = nl.do(unix.RTM_NEWLINK, 0, link(tun, 0), spec) // a kernel without IPv6 has no such setting
	if err := nl.do(unix.RTM_NEWLINK, 0, link(lo, unix.IFF_UP)); err != nil {
		return fmt.Errorf("the loopback: %w", err)
	}
	if err := nl.do(unix.RTM_NEWLINK, 0, link(tun, unix.IFF_UP), attr(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, uint32(mtu)))); err != nil {
		return fmt.Errorf("the device: %w", err)
	}
	for _, a := range addrs {
		err := nl.do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, addressOf(a, tun), attr(unix.IFA_LOCAL, a.AsSlice()), attr(unix.IFA_ADDRESS, a.AsSlice()))
		if err == nil {
			err = nl.do(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, routeOf(a), attr(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, tun)))
		}
		if err != nil && a.Is6() {
			continue // a kernel without IPv6: nothing goes there
		}
		if err != nil {
			return fmt.Errorf("the device's address: %w", err)
		}
	}
	return nil
}

func index(name string) (uint32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("the device %s: %w", name, err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r)
	}
	if err != nil {
		return 0, fmt.Errorf("the device %s: %w", name, err)
	}
	return r.Uint32(), nil
}

// link is an ifinfomsg, which sets flags.
func link(index, flags uint32) []byte {
	b := make([]byte, 4, unix.SizeofIfInfomsg)
	b[0] = unix.AF_UNSPEC
	b = binary.NativeEndian.AppendUint32(b, index)
	b = binary.NativeEndian.AppendUint32(b, flags)
	return binary.NativeEndian.AppendUint32(b, flags)
}

// addressOf is an ifaddrmsg for one address.
func addressOf(a netip.Addr, index uint32) []byte {
	return binary.NativeEndian.AppendUint32([]byte{family(a), byte(a.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}, index)
}

// routeOf is an rtmsg of the default route for an address' family.
func routeOf(a netip.Addr) []byte {
	return []byte{family(a), 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attr is an attribute of rtnetlink(7), with its padding.
func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// netlink is a socket of rtnetlink(7).
type netlink struct {
	fd  int
	seq uint32
}

func dialNetlink() (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { unix.Close(n.fd) }

// do sends a request and waits for its acknowledgement.
func (n *netlink) do(kind uint16, flags int, parts ...[]byte) error {
	n.seq++
	b := make([]byte, unix.SizeofNlMsghdr)
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], uint16(unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags))
	binary.NativeEndian.PutUint32(b[8:], n.seq)
	if _, err := unix.Write(n.fd, b); err != nil { // to the kernel
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 8<<10)
	size, _, err := unix.Recvfrom(n.fd, answer, 0)
	switch {
	case err != nil:
		return fmt.Errorf("netlink: %w", err)
	case size < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR || binary.NativeEndian.Uint32(answer[8:]) != n.seq:
		return fmt.Errorf("netlink: an answer to something else")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return fmt.Errorf("netlink: %w", unix.Errno(-code))
	}
	return nil
}
