package sidecar

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestProcess looks at this process.
func TestProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before, err := processBehind(endpoint{socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if before.args[0] != os.Args[0] {
		t.Errorf("command line %q", before.args)
	}
	udp, err := net.ListenPacket("udp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, quiet := range []string{"127.0.0.1:0", "[::1]:0"} {
		if l, err := net.Listen("tcp", quiet); err == nil { // perhaps there is no IPv6
			defer l.Close()
		}
	}
	open, err := net.Listen("tcp", "127.0.0.1:0") // as a client's JSON-RPC
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	at := open.Addr().(*net.TCPAddr).AddrPort()
	after, err := before.again()
	if err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(before.sockets)
	want[socket{udpSocket, uint16(udp.LocalAddr().(*net.UDPAddr).Port)}] = true
	want[socket{listening, uint16(tcp.Addr().(*net.TCPAddr).Port)}] = true
	if !maps.Equal(after.sockets, want) || !after.listens[at.Port()] || after.started != before.started || after.started == "" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	same, err := processBehind(endpoint{addr: at})
	if err != nil || same.started != before.started || !maps.Equal(same.sockets, want) {
		t.Errorf("by the port of its JSON-RPC: %+v, %v", same, err)
	}
	open.Close()
	for _, nobody := range []endpoint{{socket: path + "x"}, {addr: at}} {
		if p, err := processBehind(nobody); err == nil {
			t.Errorf("behind %v: %+v", nobody, p)
		}
	}
}

func TestKernelAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0035": "[::1]:53",
		"0000000000000000FFFF00000100007F:0035": "127.0.0.1:53",
	} {
		if got, err := kernelAddr(in); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0100007F", "01:1", "0100007G:1", "0100007F:10000"} {
		if _, err := kernelAddr(in); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}
