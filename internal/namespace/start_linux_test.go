package namespace

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLastReport: what init says last arrives, though it leaves a signal unread that came meanwhile.
func TestLastReport(t *testing.T) {
	caller, f, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	fd, err := unix.Dup(int(f.Fd()))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	init, err := unixConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(caller, order{Signal: 2}, nil); err != nil {
		t.Fatal(err)
	}
	code := 130
	if err := send(init, report{Exit: &code}, nil); err != nil {
		t.Fatal(err)
	}
	init.Close()
	var r report
	if _, err := receive(caller, &r); err != nil || r.Exit == nil || *r.Exit != code {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := receive(caller, &r); err == nil {
		t.Error("there is more")
	}
}
