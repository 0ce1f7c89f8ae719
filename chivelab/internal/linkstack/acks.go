package linkstack

import (
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/chivenet/chive/internal/panics"
)

const (
	// ackDelay is how long an acknowledgment waits for the next packet, which comes sooner over 3 Mbit/s and more. It is shorter than
	// any system's, as no program in this process can ask for an acknowledgment at once (see quickACK in package channel), for
	// which C tor waits.
	ackDelay = 5 * time.Millisecond
	// maxHeaders is what gVisor leaves in a packet for the headers of IP and TCP with all options.
	maxHeaders = 80
	// maxFlows bounds the connections of a host whose acknowledgments are remembered.
	maxFlows = 4096
)

// acks delays a host's acknowledgments as systems do: one for every second full packet (RFC 1122 section 4.2.3.2), but at once
// where something is missing, and when that comes (RFC 5681 section 4.2). gVisor sends one for nearly every packet. Its Reno divides
// by the window that it has just enlarged, and so adds a packet for each acknowledgment of a single one, sometimes for a whole
// window: where much is lost, it would carry up to twice what Linux does. With acknowledgments of two packets it adds two in a window at most.
type acks struct {
	send func([]byte)
	full uint32 // the bytes of a full packet

	mu    sync.Mutex // guards what follows
	flows map[flow]*acked
}

// flow is a connection of the host.
type flow struct {
	to          [4]byte
	local, port uint16
}

// acked is what a host has acknowledged of a connection.
type acked struct {
	sent  uint32
	gap   bool   // it has said that something is missing
	held  []byte // an acknowledgment that waits; nil: none does
	timer *time.Timer
}

func newAcks(mtu int, send func([]byte)) *acks {
	return &acks{send: send, full: uint32(max(mtu-maxHeaders, 1)), flows: map[flow]*acked{}}
}

// packet sends an IP packet of the host, which belongs to it from then on, or keeps it for a while.
func (a *acks) packet(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.keepLocked(b) {
		a.send(b)
	}
}

// keepLocked reports whether it has kept a packet.
func (a *acks) keepLocked(b []byte) bool {
	f, t := ofTCP(b)
	if t == nil {
		return false
	}
	s := a.flows[f]
	switch {
	case t.Flags().Intersects(header.TCPFlagSyn | header.TCPFlagRst):
		if s != nil {
			s.timer.Stop()
			delete(a.flows, f)
		}
		return false
	case s == nil: // the first one ends the handshake
		a.rememberLocked(f, t.AckNumber())
		return false
	}
	further := t.AckNumber() - s.sent // of one that was sent already it is zero
	gap := len(t.ParsedOptions().SACKBlocks) > 0
	if s.held == nil && onlyAcks(t) && !gap && !s.gap && further >= a.full && further < 2*a.full {
		s.held = b
		s.timer.Reset(ackDelay)
		return true
	}
	s.timer.Stop()
	s.held, s.sent, s.gap = nil, t.AckNumber(), gap // this one covers what was held
	return false
}

func (a *acks) rememberLocked(f flow, sent uint32) {
	if len(a.flows) >= maxFlows { // of one that is forgotten the next acknowledgment goes at once
		for _, s := range a.flows {
			a.sendLocked(s)
		}
		clear(a.flows)
	}
	s := &acked{sent: sent}
	s.timer = time.AfterFunc(time.Hour, panics.Contain(nil, nil, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sendLocked(s)
	}))
	s.timer.Stop()
	a.flows[f] = s
}

// sendLocked sends the acknowledgment that waits, if one does.
func (a *acks) sendLocked(s *acked) {
	s.timer.Stop()
	if s.held == nil {
		return
	}
	_, t := ofTCP(s.held)
	s.sent = t.AckNumber()
	a.send(s.held)
	s.held = nil
}

// ofTCP returns the connection and the segment of an IPv4 packet that the stack has made; nil: it is none of TCP's.
func ofTCP(b []byte) (flow, header.TCP) {
	ip := header.IPv4(b)
	if len(b) < header.IPv4MinimumSize || ip.TransportProtocol() != header.TCPProtocolNumber || ip.FragmentOffset() > 0 {
		return flow{}, nil
	}
	t := header.TCP(b[min(int(ip.HeaderLength()), len(b)):])
	if len(t) < header.TCPMinimumSize || int(t.DataOffset()) < header.TCPMinimumSize || int(t.DataOffset()) > len(t) {
		return flow{}, nil
	}
	return flow{ip.DestinationAddress().As4(), t.SourcePort(), t.DestinationPort()}, t
}

// onlyAcks reports whether a segment does nothing but acknowledge.
func onlyAcks(t header.TCP) bool { return t.Flags() == header.TCPFlagAck && len(t.Payload()) == 0 }
