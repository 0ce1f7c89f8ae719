package hsservice

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// TestExportLine has C tor's lines: the format of export_hs_client_circuit_id, which its
// own tests (test_hs_service.c, test_export_client_circuit_id) check with these numbers.
func TestExportLine(t *testing.T) {
	for number, want := range map[uint64]string{
		666:         "PROXY TCP6 fc00:dead:beef:4dad::0:29a ::1 666 42\r\n",
		22:          "PROXY TCP6 fc00:dead:beef:4dad::0:16 ::1 22 42\r\n",
		4294967295:  "PROXY TCP6 fc00:dead:beef:4dad::ffff:ffff ::1 65535 42\r\n",
		4294967296:  "PROXY TCP6 fc00:dead:beef:4dad::0:0 ::1 0 42\r\n",
		1<<32 + 666: "PROXY TCP6 fc00:dead:beef:4dad::0:29a ::1 666 42\r\n",
	} {
		got := exportLine(number, 42)
		if got != want {
			t.Errorf("%d: %q", number, got)
		}
		if a := netip.MustParseAddr(strings.Fields(got)[2]); a != CircuitAddr(number) {
			t.Errorf("%d: %v, and %v", number, a, CircuitAddr(number))
		}
	}
	a, b := net.Pipe()
	go func() {
		if err := exportCircuit(a, 666, 42); err != nil {
			t.Error(err)
		}
		a.Close()
	}()
	if got, err := io.ReadAll(b); err != nil || string(got) != exportLine(666, 42) {
		t.Errorf("%q %v", got, err)
	}
}
