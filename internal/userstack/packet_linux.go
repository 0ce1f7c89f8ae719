package userstack

import (
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// read hands the programs' packets to the stack, until the device is closed or its namespace
// has gone.
func (s *Stack) read() {
	b := make([]byte, s.cfg.MTU+header.IPv6MinimumSize)
	for {
		n, err := s.tun.Read(b)
		if err != nil {
			return
		}
		p, verdict := judge(b[:n])
		switch verdict {
		case take:
			s.inject(p, b[:n])
		case refuse:
			if answer := prohibited(b[:n]); answer != nil {
				s.tun.Write(answer) // if it is lost, the program waits for an answer in vain
			}
		}
	}
}

func (s *Stack) inject(p tcpip.NetworkProtocolNumber, b []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	s.link.InjectInbound(p, pkt)
	pkt.DecRef()
}

// write hands the stack's packets to the programs.
func (s *Stack) write() {
	for {
		pkt := s.link.ReadContext(s.ctx)
		if pkt == nil {
			return
		}
		v := pkt.ToView()
		s.tun.Write(v.AsSlice()) // as on any network, a packet may be lost
		v.Release()
		pkt.DecRef()
	}
}

// What becomes of a packet.
const (
	drop   = iota // an error, or to many: nobody answers
	refuse        // the program hears that nothing goes there
	take          // the stack decides
)

// judge says what becomes of a packet. Only TCP and UDP reach the stack, which would answer an
// echo request in the name of the address that it is for.
func judge(b []byte) (tcpip.NetworkProtocolNumber, int) {
	switch header.IPVersion(b) {
	case header.IPv4Version:
		h := header.IPv4(b)
		if !h.IsValid(len(b)) {
			return 0, drop
		}
		return header.IPv4ProtocolNumber, judge4(h)
	case header.IPv6Version:
		h := header.IPv6(b)
		if !h.IsValid(len(b)) {
			return 0, drop
		}
		return header.IPv6ProtocolNumber, judge6(h)
	}
	return 0, drop
}

func judge4(h header.IPv4) int {
	to := h.DestinationAddress()
	switch p := h.TransportProtocol(); {
	case p == header.TCPProtocolNumber, p == header.UDPProtocolNumber:
		return take
	case header.IsV4MulticastAddress(to), to == header.IPv4Broadcast, h.FragmentOffset() != 0:
		return drop
	case p == header.ICMPv4ProtocolNumber && (len(h.Payload()) < header.ICMPv4MinimumSize || header.ICMPv4(h.Payload()).Type() != header.ICMPv4Echo):
		return drop // RFC 1122, section 3.2.2: no error about an error
	}
	return refuse
}

func judge6(h header.IPv6) int {
	switch p := h.TransportProtocol(); {
	case p == header.TCPProtocolNumber, p == header.UDPProtocolNumber:
		return take
	case header.IsV6MulticastAddress(h.DestinationAddress()):
		return drop
	case p == header.ICMPv6ProtocolNumber && (len(h.Payload()) < header.ICMPv6MinimumSize || header.ICMPv6(h.Payload()).Type() != header.ICMPv6EchoRequest):
		return drop
	}
	return refuse
}

// quoted is how much of a packet an error about it has.
const quoted = 512

// prohibited returns the ICMP error that says that the network does not let a packet through.
func prohibited(b []byte) []byte {
	if header.IPVersion(b) == header.IPv4Version {
		return prohibited4(header.IPv4(b))
	}
	return prohibited6(header.IPv6(b))
}

func prohibited4(h header.IPv4) []byte {
	quote := h[:min(len(h), quoted)]
	out := make([]byte, header.IPv4MinimumSize+header.ICMPv4MinimumSize+len(quote))
	ip := header.IPv4(out)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(out)), TTL: 64, Protocol: uint8(header.ICMPv4ProtocolNumber),
		SrcAddr: h.DestinationAddress(), DstAddr: h.SourceAddress(),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	m := header.ICMPv4(ip.Payload())
	m.SetType(header.ICMPv4DstUnreachable)
	m.SetCode(header.ICMPv4AdminProhibited)
	copy(m.Payload(), quote)
	m.SetChecksum(header.ICMPv4Checksum(m, 0))
	return out
}

func prohibited6(h header.IPv6) []byte {
	quote := h[:min(len(h), quoted)]
	out := make([]byte, header.IPv6MinimumSize+header.ICMPv6DstUnreachableMinimumSize+len(quote))
	ip := header.IPv6(out)
	ip.Encode(&header.IPv6Fields{
		PayloadLength: uint16(len(out) - header.IPv6MinimumSize), HopLimit: 64, TransportProtocol: header.ICMPv6ProtocolNumber,
		SrcAddr: h.DestinationAddress(), DstAddr: h.SourceAddress(),
	})
	m := header.ICMPv6(ip.Payload())
	m.SetType(header.ICMPv6DstUnreachable)
	m.SetCode(header.ICMPv6Prohibited)
	copy(m[header.ICMPv6DstUnreachableMinimumSize:], quote)
	m.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: h.DestinationAddress(), Dst: h.SourceAddress()}))
	return out
}
