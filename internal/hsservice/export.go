package hsservice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// circuitNet is C tor's network of addresses that stand for circuits: one that no
// machine has (RFC 4193).
var circuitNet = netip.MustParseAddr("fc00:dead:beef:4dad::")

// CircuitAddr returns an address that stands for a circuit: fc00:dead:beef:4dad::/64
// with the circuit's number in the last 32 bits, as in C tor.
func CircuitAddr(number uint64) netip.Addr {
	b := circuitNet.As16()
	binary.BigEndian.PutUint32(b[12:], uint32(number))
	return netip.AddrFrom16(b)
}

// exportLine is the line of HAProxy's protocol, version 1, that C tor sends for
// "HiddenServiceExportCircuitID haproxy". A server takes the address for the client's.
func exportLine(number uint64, port uint16) string {
	n := uint32(number)
	return fmt.Sprintf("PROXY TCP6 fc00:dead:beef:4dad::%x:%x ::1 %d %d\r\n", n>>16, n&0xffff, n&0xffff, port)
}

// exportCircuit writes the line to a target.
func exportCircuit(conn net.Conn, number uint64, port uint16) error {
	_ = conn.SetWriteDeadline(time.Now().Add(targetTimeout)) // a target that reads nothing
	if _, err := conn.Write([]byte(exportLine(number, port))); err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // without addresses: it goes to the log
		}
		return fault.New(fault.Network, "the line with the circuit's number: %w", err)
	}
	_ = conn.SetWriteDeadline(time.Time{})
	return nil
}
