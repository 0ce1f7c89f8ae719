package linkstack

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// segment makes an IPv4 packet with a segment of TCP.
func segment(port uint16, ack uint32, flags header.TCPFlags, options []byte, payload int) []byte {
	b := make([]byte, header.IPv4MinimumSize+header.TCPMinimumSize+len(options)+payload)
	header.IPv4(b).Encode(&header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 64, Protocol: uint8(header.TCPProtocolNumber),
		SrcAddr: tcpip.AddrFrom4([4]byte{10, 0, 0, 1}), DstAddr: tcpip.AddrFrom4([4]byte{10, 0, 0, 2})})
	t := header.TCP(b[header.IPv4MinimumSize:])
	t.Encode(&header.TCPFields{SrcPort: port, DstPort: 80, AckNum: ack, DataOffset: uint8(header.TCPMinimumSize + len(options)), Flags: flags})
	copy(t[header.TCPMinimumSize:], options)
	return b
}

// sentAcks returns acks of a host, and what it has sent since this was asked last: each packet's number of acknowledgment.
func sentAcks() (*acks, func() []uint32) {
	var out []uint32
	a := newAcks(1500, func(b []byte) {
		if _, t := ofTCP(b); t != nil {
			out = append(out, t.AckNumber())
		} else {
			out = append(out, uint32(len(b)))
		}
	})
	return a, func() []uint32 {
		a.mu.Lock()
		defer a.mu.Unlock()
		defer func() { out = nil }()
		return out
	}
}

// TestAcks: every second acknowledgment of a full packet goes, the last one after a while, and at once goes what says more than that
// the next packet has come.
func TestAcks(t *testing.T) {
	const full = 1500 - maxHeaders
	sack := []byte{header.TCPOptionNOP, header.TCPOptionNOP, header.TCPOptionSACK, 10, 0, 0, 0, 1, 0, 0, 0, 2}
	type packet struct {
		further uint32 // beyond the packet before
		flags   header.TCPFlags
		options []byte
		payload int
	}
	only := func(further uint32) packet { return packet{further: further, flags: header.TCPFlagAck} }
	for name, c := range map[string]struct {
		packets   []packet
		now, late []uint32
	}{
		"the end of the handshake": {[]packet{only(7)}, []uint32{7}, nil},
		"every second":             {[]packet{only(0), only(full), only(full), only(full), only(full)}, []uint32{0, 2 * full, 4 * full}, nil},
		"the last one":             {[]packet{only(0), only(full), only(full), only(full)}, []uint32{0, 2 * full}, []uint32{3 * full}},
		"short packets":            {[]packet{only(0), only(full - 1), only(full - 1), only(1)}, []uint32{0, full - 1, 2*full - 2, 2*full - 1}, nil},
		"two packets at once":      {[]packet{only(0), only(2 * full), only(2 * full)}, []uint32{0, 2 * full, 4 * full}, nil},
		"the same again":           {[]packet{only(5), only(0), only(0)}, []uint32{5, 5, 5}, nil},
		"one packet and again":     {[]packet{only(0), only(full), only(0), only(0)}, []uint32{0, full, full}, nil},
		"an older one":             {[]packet{only(full), only(0), {further: ^uint32(0), flags: header.TCPFlagAck}}, []uint32{full, full, full - 1}, nil},
		"a gap":                    {[]packet{only(0), {full, header.TCPFlagAck, sack, 0}}, []uint32{0, full}, nil},
		"a gap that closes":        {[]packet{only(0), {0, header.TCPFlagAck, sack, 0}, only(full), only(full), only(full)}, []uint32{0, 0, full, 3 * full}, nil},
		"data":                     {[]packet{only(0), only(full), {full, header.TCPFlagAck, nil, 1}, {0, header.TCPFlagAck, nil, 1}}, []uint32{0, 2 * full, 2 * full}, nil},
		"the end":                  {[]packet{only(0), only(full), {0, header.TCPFlagAck | header.TCPFlagFin, nil, 0}}, []uint32{0, full}, nil},
		"a reset":                  {[]packet{only(0), only(full), {0, header.TCPFlagRst, nil, 0}, only(full)}, []uint32{0, full, 2 * full}, nil},
		"over the largest number":  {[]packet{only(^uint32(0)), only(full)}, []uint32{^uint32(0)}, []uint32{full - 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, sent := sentAcks()
				at := uint32(0)
				for _, p := range c.packets {
					at += p.further
					a.packet(segment(1000, at, p.flags, p.options, p.payload))
				}
				time.Sleep(ackDelay - 1)
				if got := sent(); !slices.Equal(got, c.now) {
					t.Errorf("at once: %d, want %d", got, c.now)
				}
				time.Sleep(2 * time.Nanosecond)
				synctest.Wait()
				if got := sent(); !slices.Equal(got, c.late) {
					t.Errorf("after a while: %d, want %d", got, c.late)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := sent(); len(got) > 0 {
					t.Errorf("much later: %d", got)
				}
			})
		})
	}
}

// TestAcksOthers: what is no whole segment of TCP goes as it came.
func TestAcksOthers(t *testing.T) {
	a, sent := sentAcks()
	for i := range uint32(3) { // of a connection the second would wait
		whole := segment(1, i*1500, header.TCPFlagAck, nil, 0)
		changed := func(at int, to byte) []byte {
			b := slices.Clone(whole)
			b[at] = to
			return b
		}
		udp, fragment, offset, short := changed(9, 17), changed(7, 1), changed(header.IPv4MinimumSize+12, 0xf0), changed(0, 0x4f)
		for _, b := range [][]byte{{}, whole[:10], whole[:30], udp, fragment, offset, short} {
			a.packet(b)
			if got := sent(); !slices.Equal(got, []uint32{uint32(len(b))}) {
				t.Errorf("%d: of %x: %d", i, b, got)
			}
		}
	}
	if len(a.flows) > 0 {
		t.Errorf("%d connections are remembered", len(a.flows))
	}
}

// TestAcksBounded: a host remembers so many connections, and forgets none's acknowledgment that waits.
func TestAcksBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, sent := sentAcks()
		a.packet(segment(1, 0, header.TCPFlagAck, nil, 0))
		a.packet(segment(1, 1500, header.TCPFlagAck, nil, 0))
		for port := range uint16(maxFlows - 1) {
			a.packet(segment(port+2, 30, header.TCPFlagAck, nil, 0))
		}
		if got := sent(); len(a.flows) != maxFlows || slices.Contains(got, 1500) {
			t.Fatalf("%d connections, and %d have been sent", len(a.flows), len(got))
		}
		a.packet(segment(65535, 40, header.TCPFlagAck, nil, 0))
		if got := fmt.Sprint(sent()); len(a.flows) != 1 || got != "[1500 40]" {
			t.Errorf("%d connections, sent %s", len(a.flows), got)
		}
	})
}
