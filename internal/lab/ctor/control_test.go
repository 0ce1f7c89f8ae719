package ctor

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	const in = "250-version=0.4.9\r\n250+info=\r\nfirst\r\n..second\r\n.\r\n250 OK\r\n650 CIRC 1 BUILT\r\n"
	r := bufio.NewReader(strings.NewReader(in))
	got, err := readReply(r)
	want := []string{"250-version=0.4.9", "250+info=\nfirst\n.second", "250 OK"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	got, err = readReply(r)
	if err != nil || !reflect.DeepEqual(got, []string{"650 CIRC 1 BUILT"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "25", "250\r\n", "250?x\r\n", "250-x\r\n", "250+x\r\nno end\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add("250 OK\r\n")
	f.Add("250-a=b\r\n250+c=\r\nd\r\n.\r\n250 OK\r\n")
	f.Add("650+X\r\n..\r\n.\r\n650 OK\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		reply, err := readReply(bufio.NewReader(strings.NewReader(in)))
		if err == nil && (len(reply) == 0 || reply[len(reply)-1][3] != ' ') {
			t.Errorf("%q", reply)
		}
	})
}

func TestParseCircuit(t *testing.T) {
	fp := strings.Repeat("AB", 20)
	c, err := ParseCircuit("7 BUILT $" + fp + "~relay0,$" + fp + ` BUILD_FLAGS=NEED_CAPACITY PURPOSE=GENERAL TIME_CREATED=2026-01-01T00:00:00.000000 SOCKS_USERNAME="a b"`)
	if err != nil || c.ID != "7" || c.Status != "BUILT" || c.Purpose != "GENERAL" || len(c.Path) != 2 ||
		c.Path[0].Name != "relay0" || c.Path[0].RSA.String() != fp || c.Path[1].Name != "" || c.Fields["SOCKS_USERNAME"] != "a b" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ParseCircuit("8 LAUNCHED PURPOSE=GENERAL"); err != nil || c.Path != nil || c.Purpose != "GENERAL" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "7", "7 BUILT $ABC~x"} {
		if c, err := ParseCircuit(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, c)
		}
	}
}

func FuzzParseCircuit(f *testing.F) {
	f.Add("7 BUILT $" + strings.Repeat("AB", 20) + `~x PURPOSE=GENERAL A="b c"`)
	f.Add("1 CLOSED")
	f.Fuzz(func(t *testing.T, in string) {
		if c, err := ParseCircuit(in); err == nil && (c.ID == "" || c.Status == "") {
			t.Errorf("%+v", c)
		}
	})
}

func TestParseStream(t *testing.T) {
	s, err := ParseStream("3 SUCCEEDED 7 127.0.0.1:80 PURPOSE=USER")
	if err != nil || s.ID != "3" || s.Circuit != "7" || s.Target != "127.0.0.1:80" || s.Fields["PURPOSE"] != "USER" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseStream("3 SUCCEEDED"); err == nil {
		t.Errorf("%+v", s)
	}
}

func FuzzParseStream(f *testing.F) {
	f.Add("3 SUCCEEDED 7 127.0.0.1:80 PURPOSE=USER")
	f.Fuzz(func(t *testing.T, in string) {
		if s, err := ParseStream(in); err == nil && s.Target == "" {
			t.Errorf("%+v", s)
		}
	})
}

// TestControlEnds plays a control port that hangs up: a command fails, and the
// events' channel is closed.
func TestControlEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for _, answer := range []string{"250 OK\r\n", "250 OK\r\n650 CIRC 1 BUILT\r\n", "552 no such thing\r\n"} {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			conn.Write([]byte(answer))
		}
		r.ReadString('\n')
	}()
	cookie := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(cookie, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := DialControl(t.Context(), ln.Addr().String(), cookie)
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events(t.Context(), "CIRC")
	if err != nil {
		t.Fatal(err)
	}
	if ev := <-events; ev.Type != "CIRC" || ev.Rest != "1 BUILT" {
		t.Errorf("event %+v", ev)
	}
	if _, err := c.GetInfo(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("refused command: %v", err)
	}
	if _, err := c.GetInfo(t.Context(), "y"); err == nil {
		t.Error("a command on an ended connection succeeded")
	}
	if ev, open := <-events; open {
		t.Errorf("event %+v after the end", ev)
	}
	c.Close()
}
