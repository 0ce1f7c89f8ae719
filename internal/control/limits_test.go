package control

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ctlwire"
)

// TestStrangersMakeRoom: however many connect and say nothing, a controller that knows the secret gets in.
func TestStrangersMakeRoom(t *testing.T) {
	r := newRig(t, Auth{Cookie: cookie, CookieFile: "/a"})
	old := r.known()
	var silent []*client
	for range 3 * maxStrangers {
		silent = append(silent, r.dial())
	}
	one := r.known()
	for _, c := range []*client{one, old} {
		c.send("GETINFO version\r\n")
		c.want("250-version=1.2.3.4\r\n250 OK\r\n")
	}
	silent[0].wantEnd("") // the first of them has made room
}

// TestFull: more than maxSessions controllers are not served, and those that are keep their places.
func TestFull(t *testing.T) {
	r := newRig(t, Auth{})
	var all []*client
	for range maxSessions {
		all = append(all, r.known())
	}
	r.dial().wantEnd("")
	for _, c := range all {
		c.send("GETINFO version\r\n")
		c.want("250-version=1.2.3.4\r\n250 OK\r\n")
	}
	all[0].send("QUIT\r\n")
	all[0].wantEnd("250 closing connection\r\n")
	for { // its place is free in a moment
		c := r.dial()
		_, _ = io.WriteString(c, "AUTHENTICATE\r\n") // it may be closed already
		if l, err := c.in.ReadString('\n'); err == nil && l == "250 OK\r\n" {
			return
		}
	}
}

// TestLongCommand: 1 MiB is the bound of a command, with its data.
func TestLongCommand(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	long := "GETINFO version" + strings.Repeat(" version", 10_000)
	c.send(long + "\r\n")
	c.want(strings.Repeat("250-version=1.2.3.4\r\n", 10_001) + "250 OK\r\n")
	c.send(strings.Repeat("a", ctlwire.MaxCommand) + "\r\n")
	c.wantEnd("500 Line too long.\r\n")
	c = r.known()
	c.send("+LOADCONF\r\n" + strings.Repeat("A 1\r\n", ctlwire.MaxCommand/5) + ".\r\n")
	c.wantEnd("500 Line too long.\r\n")
}

// TestUnreadEvents: a controller that does not read its events loses its connection, others get all of them,
// and nothing waits.
func TestUnreadEvents(t *testing.T) {
	r := newRig(t, Auth{})
	deaf, good := r.known(), r.known()
	for _, c := range []*client{deaf, good} {
		c.send("SETEVENTS STREAM\r\n")
		c.want("250 OK\r\n")
	}
	text := strings.Repeat("x", 1000)
	const all = 3 * maxQueued / 1000
	read := make(chan int)
	room := make(chan struct{}, 100) // the good one lags, but not by much
	go func() {
		n := 0
		for n < all {
			if l, err := good.in.ReadString('\n'); err != nil || l != "650 STREAM "+text+"\r\n" {
				break
			}
			n++
			<-room
		}
		read <- n
	}()
	for range all {
		room <- struct{}{}
		if err := r.srv.Event("STREAM", text); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-read; n != all {
		t.Errorf("%d events of %d", n, all)
	}
	if b, _ := io.ReadAll(deaf.in); len(b) >= all*len(text) {
		t.Error("the deaf one had them all")
	}
}

// TestLargeEvent: an event that is larger than what may wait reaches whoever reads, because it waits for nothing.
func TestLargeEvent(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	c.send("SETEVENTS NEWCONSENSUS\r\n")
	c.want("250 OK\r\n")
	line := strings.Repeat("r", 1000)
	const lines = maxQueued/1000 + 10
	if err := r.srv.EventSeq("NEWCONSENSUS", "", func(yield func(string) bool) {
		for range lines {
			if !yield(line) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	c.want("650+NEWCONSENSUS\r\n" + strings.Repeat(line+"\r\n", lines) + ".\r\n650 OK\r\n")
}

// TestLongCommandEnds: a command that has room for very many questions ends with its connection.
func TestLongCommandEnds(t *testing.T) {
	for _, ask := range []string{"GETINFO", "GETCONF"} {
		r := newRig(t, Auth{})
		c := r.known()
		asked, goOn := make(chan struct{}), make(chan struct{})
		var n atomic.Int64
		r.engine.asked = func() {
			if n.Add(1) == 1 {
				close(asked)
				<-goOn
			}
		}
		c.send(ask + strings.Repeat(" version", 1000) + "\r\n")
		<-asked
		r.srv.cut()
		close(goOn)
		r.srv.Close()
		if n.Load() != 1 {
			t.Errorf("%s: %d questions were answered for nobody", ask, n.Load())
		}
	}
}

// TestUnreadReply: a controller that does not read a reply loses its connection after a time.
func TestUnreadReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := piped(t, Auth{})
		if _, err := c.Write([]byte("AUTHENTICATE\r\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTime + time.Second)
		synctest.Wait()
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("it still has its connection")
		}
		srv.Close()
	})
}

// piped returns a server and a connection to it, on virtual time.
func piped(t *testing.T, auth Auth) (*Server, net.Conn) {
	t.Helper()
	srv := New(Config{Engine: &fake{disowned: make(chan struct{}, 1)}, Log: slog.New(slog.DiscardHandler), Version: "0", Secrets: func() Auth { return auth }})
	a, b := net.Pipe()
	srv.take(a, Door{Admit: Anybody})
	t.Cleanup(func() { b.Close() })
	return srv, b
}

// TestSilentStranger: who does not authenticate has a time, however it sends bytes; who did has all the time.
func TestSilentStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, c := piped(t, Auth{})
		begin := time.Now()
		var err error
		for err == nil {
			time.Sleep(time.Second)
			_, err = c.Write([]byte("P"))
		}
		if took := time.Since(begin); took > strangerTime+2*time.Second {
			t.Error(took)
		}
		known, c2 := piped(t, Auth{})
		go c2.Write([]byte("AUTHENTICATE\r\n"))
		ok := make([]byte, len("250 OK\r\n"))
		if _, err := io.ReadFull(c2, ok); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		go c2.Write([]byte("QUIT\r\n"))
		if b, err := io.ReadAll(c2); err != nil || string(b) != "250 closing connection\r\n" {
			t.Errorf("%q %v", b, err)
		}
		srv.Close()
		known.Close()
	})
}

// TestEventsAfterReply: an event comes after the reply to the command that caused it, before the next reply, and
// never within one.
func TestEventsAfterReply(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	r.engine.during = func() {
		if err := r.srv.EventLines("CONF_CHANGED", []string{"A=1", "B"}); err != nil {
			t.Error(err)
		}
	}
	c.send("SETEVENTS CONF_CHANGED\r\nSETCONF A=1\r\nGETINFO many\r\n")
	c.want("250 OK\r\n250 OK\r\n650-CONF_CHANGED\r\n650-A=1\r\n650-B\r\n650 OK\r\n250+many=\r\na\r\n..b\r\n\r\nc\r\n.\r\n250 OK\r\n")
	if r.srv.Wanted("BW") || !r.srv.Wanted("CONF_CHANGED") || r.srv.Wanted("NONE") {
		t.Error("who wants what is not known")
	}
	c.send("SETEVENTS\r\n")
	c.want("250 OK\r\n")
	if r.srv.Wanted("CONF_CHANGED") {
		t.Error("nobody wants it any more")
	}
	if err := r.srv.Event("CONF_CHANGED", "two\nlines"); err != nil {
		t.Error("an event that nobody wants is not made", err)
	}
	c.send("SETEVENTS BW\r\n")
	c.want("250 OK\r\n")
	if r.srv.Event("BW", "two\nlines") == nil || r.srv.EventLines("BW", []string{"two\nlines"}) == nil {
		t.Error("an event with a line break was sent")
	}
	if err := r.srv.Event("BW", ""); err != nil {
		t.Error(err)
	}
	c.want("650 BW\r\n")
}

// TestWantedEnds: what a controller wanted ends with its connection.
func TestWantedEnds(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	c.send("SETEVENTS BW\r\nTAKEOWNERSHIP\r\n")
	c.want("250 OK\r\n250 OK\r\n")
	c.Close()
	<-r.engine.disowned
	if r.srv.Wanted("BW") {
		t.Error("it is still wanted")
	}
}

// TestClose: the end of the server ends its sessions, and is no reason to say that an owner has gone.
func TestClose(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	c.send("TAKEOWNERSHIP\r\n")
	c.want("250 OK\r\n")
	r.srv.Close()
	c.wantEnd("")
	select {
	case <-r.engine.disowned:
		t.Error("the program ends anyway")
	default:
	}
	r.dial().wantEnd("")
}

// FuzzSession: whatever a controller sends, it gets replies of the protocol's form, and its session ends.
func FuzzSession(f *testing.F) {
	f.Add([]byte("AUTHENTICATE\r\nGETINFO many stream bad\r\nSETEVENTS BW\r\nSETCONF a=\"b\r\nQUIT\r\n"))
	f.Add([]byte("PROTOCOLINFO 1\r\nAUTHCHALLENGE SAFECOOKIE \"x\"\r\nAUTHENTICATE 00\r\n"))
	f.Add([]byte("AUTHENTICATE\n+LOADCONF\n.x\n..\n.\nTAKEOWNERSHIP\nSAVECONF FORCE\nGETCONF log orport x\nSIGNAL HUP\n"))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	f.Add([]byte("AUTHENTICATE\nEXTENDCIRCUIT 0 a,b purpose=controller\nEXTENDCIRCUIT 7\nSETCIRCUITPURPOSE 7 purpose=general\nCLOSECIRCUIT 7 IfUnused\n"))
	f.Add([]byte("AUTHENTICATE\nATTACHSTREAM 1 0 HOP=2\nREDIRECTSTREAM 1 x.example 80\nCLOSESTREAM 1 1 flag\nMAPADDRESS 1.2.3.4=a .=bad c=d\nRESOLVE mode=reverse 1.2.3.4\nRESOLVE a b\n"))
	f.Add([]byte("AUTHENTICATE\nDROPGUARDS\nDROPTIMEOUTS\nUSEFEATURE VERBOSE_NAMES\nDROPOWNERSHIP\nRESETCONF a b=c\nGETINFO onions/current onions/detached\nSETEVENTS STREAM CIRC HS_DESC\n"))
	f.Add([]byte("AUTHENTICATE\nADD_ONION NEW:BEST Flags=Detach,V3Auth ClientAuthV3=a Port=80,unix:\"/a b\" MaxStreams=1 PoWDefensesEnabled=1 PoWQueueRate=1 PoWQueueBurst=2\nDEL_ONION a\n"))
	f.Add([]byte("AUTHENTICATE\nONION_CLIENT_AUTH_ADD a x25519:AAAA ClientName=b Flags=Permanent\nONION_CLIENT_AUTH_VIEW a\nONION_CLIENT_AUTH_REMOVE a\nHSFETCH a SERVER=b\n+HSPOST SERVER=a HSADDRESS=b\nhs-descriptor 3\n.\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		srv := New(Config{Engine: &fake{disowned: make(chan struct{})}, Steering: new(wheel), Log: slog.New(slog.DiscardHandler), Version: "0", Secrets: func() Auth { return Auth{} }})
		a, b := net.Pipe()
		srv.take(a, Door{Admit: Anybody})
		out := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(b)
			out <- all
		}()
		b.Write(in) // it may end the connection
		b.Write([]byte("\r\n.\r\nQUIT\r\n"))
		all := <-out
		b.Close()
		srv.Close()
		data := false
		for l := range bytes.Lines(all) {
			l, whole := bytes.CutSuffix(l, []byte("\r\n"))
			switch {
			case !data && bytes.HasPrefix(l, []byte("HTTP/1.0 501 ")):
				return
			case !whole:
				t.Fatalf("%q", l)
			case data:
				data = string(l) != "."
			case len(l) < 4 || bytes.IndexByte([]byte(" -+"), l[3]) < 0:
				t.Fatalf("%q in %q", l, all)
			default:
				data = l[3] == '+'
			}
		}
	})
}

// TestAdmit: who is let in is asked before anything is read.
func TestAdmit(t *testing.T) {
	srv := New(Config{Engine: &fake{}, Log: slog.New(slog.DiscardHandler), Version: "0", Secrets: func() Auth { return Auth{} }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l, Door{Admit: func(net.Conn) error { return errStranger }}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("%q", b)
	}
	c.Close()
	cancel()
	l.Close()
	<-ended
	srv.Close()
}

// TestAdmitAgain: who came while a secret was needed is asked for its user when none is needed any more.
func TestAdmitAgain(t *testing.T) {
	var open atomic.Bool
	srv := New(Config{Engine: &fake{}, Log: slog.New(slog.DiscardHandler), Version: "0", Secrets: func() Auth {
		if open.Load() {
			return Auth{}
		}
		return Auth{Cookie: cookie}
	}})
	admit := func(net.Conn) error {
		if open.Load() {
			return errStranger
		}
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(context.Background(), l, Door{Admit: admit}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "PROTOCOLINFO 1\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for l := ""; l != "250 OK\r\n"; {
		if l, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	open.Store(true)
	if _, err := io.WriteString(c, "AUTHENTICATE\r\n"); err != nil {
		t.Fatal(err)
	}
	if l, _ := in.ReadString('\n'); !strings.HasPrefix(l, "515 ") {
		t.Errorf("%q", l)
	}
	c.Close()
	l.Close()
	<-ended
	srv.Close()
}

// TestEmptyCookie: a cookie that is not there yet is nobody's.
func TestEmptyCookie(t *testing.T) {
	r := newRig(t, Auth{Cookie: []byte{}})
	for _, ask := range []string{"AUTHENTICATE", "AUTHCHALLENGE SAFECOOKIE 00"} {
		c := r.dial()
		c.send(ask + "\r\n")
		if l, _ := c.in.ReadString('\n'); !strings.HasPrefix(l, "515 ") {
			t.Errorf("%s: %q", ask, l)
		}
	}
}

// TestPeers: whose program has connected is known of both kinds of connections.
func TestPeers(t *testing.T) {
	for _, network := range []string{"unix", "tcp4", "tcp6"} {
		at := t.TempDir() + "/s"
		switch network {
		case "tcp4":
			at = "127.0.0.1:0"
		case "tcp6":
			at = "[::1]:0"
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Logf("%s is not tried: %v", network, err)
			continue
		}
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := OwnUserWhereKnown(s); err != nil {
			t.Error(network, err)
		}
		if err := Anybody(s); err != nil {
			t.Error(err)
		}
		c.Close()
		s.Close()
		l.Close()
	}
}
