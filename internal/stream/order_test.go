package stream

import (
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestMessagesOutOfOrder: an exit that opens a stream twice, sends data before it is open, or
// uses the flow control that was not negotiated, breaks the protocol.
func TestMessagesOutOfOrder(t *testing.T) {
	s := &Stream{opened: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.dataLocked([]byte("x"), time.Time{}); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), "not open") || s.read != 0 {
		t.Errorf("DATA before CONNECTED: %v", err)
	}
	if err := s.connectedLocked(nil); err != nil || !s.connected {
		t.Fatalf("CONNECTED: %v", err)
	}
	if err := s.connectedLocked(nil); !fault.Is(err, fault.Protocol) {
		t.Errorf("a second CONNECTED: %v", err)
	}
	ended := &Stream{opened: make(chan struct{}), peerEnded: true}
	if err := ended.connectedLocked(nil); !fault.Is(err, fault.Protocol) {
		t.Errorf("CONNECTED after END: %v", err)
	}
	rates := &outFlow{xon: true}
	windows := &outFlow{}
	for what, err := range map[string]error{
		"SENDME with congestion control":  rates.sendme(),
		"XON without congestion control":  windows.gotXON(time.Time{}, 1),
		"XOFF without congestion control": windows.gotXOFF(),
	} {
		if !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
