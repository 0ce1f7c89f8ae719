package control

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/ctlwire"
)

// fake is an engine that remembers what it was told.
type fake struct {
	mu       sync.Mutex
	done     []string
	during   func() // within Set
	asked    func() // within Info and Get
	disowned chan struct{}
	findable atomic.Bool // its services are not anonymous

	addresses []string    // guarded by mu: that services get, in turn; nil: they are refused
	keys      []OnionKey  // guarded by mu
	deleted   chan string // addresses; nil: nobody wants to know
}

func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, s)
}

func (f *fake) forgetDone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = nil
}

func (f *fake) Info(key string) (Answer, error) {
	if f.asked != nil {
		f.asked()
	}
	switch key {
	case "version":
		return Answer{Text: "1.2.3.4"}, nil
	case "empty":
		return Answer{}, nil
	case "stream-status":
		return Answer{Text: "7 SUCCEEDED 3 a:80\n9 SUCCEEDED 4 secret:80"}, nil
	case "circuit-status":
		return Answer{Text: "3 BUILT $AA~n\n4 BUILT $BB~m"}, nil
	case "many":
		return Answer{Text: "a\n.b\n\nc\n"}, nil
	case "stream":
		return Answer{Lines: func(yield func(string) bool) { _ = yield("x") && yield("y") }}, nil
	case "bad":
		return Answer{Lines: func(yield func(string) bool) { yield("two\nlines") }}, nil
	case "late":
		return Answer{}, ctlwire.Errorf(ctlwire.Failed, "Address unknown")
	}
	return Answer{}, ctlwire.Errorf(ctlwire.Unknown, "Unrecognized key %s", ctlwire.Quote(key))
}

func (f *fake) Signal(name string) { f.note("signal " + name) }

func (f *fake) Get(name string) ([]Line, error) {
	if f.asked != nil {
		f.asked()
	}
	switch strings.ToLower(name) {
	case "log":
		return []Line{{"Log", "a", true}, {"Log", "b", true}}, nil
	case "__owningcontrollerprocess":
		return []Line{{"__OwningControllerProcess", "7", true}}, nil
	case "orport":
		return []Line{{Key: "ORPort"}}, nil
	}
	return nil, ctlwire.Errorf(ctlwire.Unknown, "Unrecognized configuration key %s", ctlwire.Quote(name))
}

func (f *fake) Set(changes []Line, reset bool) error {
	for _, c := range changes {
		if c.Key == "no" {
			return ctlwire.Errorf(ctlwire.BadValue, "Unacceptable option value: %s", c.Value)
		}
	}
	f.note(fmt.Sprintf("set %v%v", reset, changes))
	if f.during != nil {
		f.during()
	}
	return nil
}

func (f *fake) Load(text []byte) error { f.note("load " + string(text)); return nil }
func (f *fake) Save(force bool) error {
	if !force {
		return fmt.Errorf("disk full")
	}
	return nil
}
func (f *fake) Disowned() { close(f.disowned) }

// rig is a server at a unix socket.
type rig struct {
	t      *testing.T
	srv    *Server
	engine *fake
	addr   string
}

var cookie = []byte("0123456789abcdef0123456789abcdef")

func newRig(t *testing.T, auth Auth) *rig {
	t.Helper()
	return newRigWith(t, auth, Door{Admit: OwnUser})
}

func newRigWith(t *testing.T, auth Auth, d Door) *rig {
	t.Helper()
	return newRigOf(t, Config{Log: slog.New(slog.DiscardHandler), Secrets: func() Auth { return auth }}, d)
}

// newRigOf adds the engine and the version to the configuration.
func newRigOf(t *testing.T, cfg Config, d Door) *rig {
	t.Helper()
	r := &rig{t: t, engine: &fake{disowned: make(chan struct{})}, addr: filepath.Join(t.TempDir(), "s")}
	cfg.Engine, cfg.Version = r.engine, "0.4.9.11-test"
	r.srv = New(cfg)
	l, err := net.Listen("unix", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.srv.Serve(context.Background(), l, d) }()
	t.Cleanup(func() {
		l.Close()
		<-ended
		r.srv.Close()
	})
	return r
}

// client is a controller.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	c, err := net.Dial("unix", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &client{r.t, c, bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// want reads exactly a text.
func (c *client) want(s string) {
	c.t.Helper()
	b := make([]byte, len(s))
	n, err := io.ReadFull(c.in, b)
	if string(b[:n]) != s {
		c.t.Fatalf("%q (%v), want %q", b[:n], err, s)
	}
}

// wantEnd reads a text, and then the end.
func (c *client) wantEnd(s string) {
	c.t.Helper()
	b, err := io.ReadAll(c.in)
	if string(b) != s {
		c.t.Fatalf("%q (%v), want %q and the end", b, err, s)
	}
}

func (r *rig) known() *client {
	r.t.Helper()
	c := r.dial()
	c.send("AUTHENTICATE " + hex.EncodeToString(cookie) + "\r\n")
	c.want("250 OK\r\n")
	return c
}

// TestCommands: what each command answers, as C tor does.
func TestCommands(t *testing.T) {
	c := newRig(t, Auth{}).known()
	for _, x := range []struct{ ask, want string }{
		{"GETINFO version", "250-version=1.2.3.4|250 OK"},
		{"getinfo version empty", "250-version=1.2.3.4|250-empty=|250 OK"},
		{"GETINFO", "250 OK"},
		{"GETINFO many", "250+many=|a|..b||c|.|250 OK"},
		{"GETINFO stream", "250+stream=|x|y|.|250 OK"},
		{"GETINFO version VERSION blarg", `552-Unrecognized key "VERSION"|552 Unrecognized key "blarg"`},
		{"GETINFO version late blarg", "551 Address unknown"},
		{"GETCONF LOG orport", "250-Log=a|250-Log=b|250 ORPort"},
		{"GETCONF", "250 OK"},
		{"GETCONF log blarg", `552 Unrecognized configuration key "blarg"`},
		{`SETCONF a=b c="d \n\"" e`, "250 OK"},
		{"RESETCONF a", "250 OK"},
		{"SETCONF no=1", "513 Unacceptable option value: 1"},
		{`SETCONF a="b`, "512 Bad arguments to SETCONF: Cannot parse keyword argument(s)"},
		{"+LOADCONF\r\nA 1\r\nB 2\r\n.", "250 OK"},
		{"LOADCONF", "512 Bad arguments to LOADCONF: Empty body"},
		{"+GETINFO version\r\n.", "512 Bad arguments to GETINFO: Unexpected body"},
		{"SAVECONF", "551 Unable to write configuration to disk."},
		{"SAVECONF force", "250 OK"},
		{"SETEVENTS circ Bw EXTENDED", "250 OK"},
		{"SETEVENTS BLARG", `552 Unrecognized event "BLARG"`},
		{"SETEVENTS PT_LOG", `552 Unrecognized event "PT_LOG"`},
		{"SETEVENTS", "250 OK"},
		{"SIGNAL FOO", `552 Unrecognized signal code "FOO"`},
		{"SIGNAL", "512 Bad arguments to SIGNAL: Need at least 1 argument(s)"},
		{"SIGNAL a b", "512 Bad arguments to SIGNAL: Cannot accept more than 1 argument(s)"},
		{"SIGNAL hup", "250 OK"},
		{"BLARG x", `510 Unrecognized command "BLARG"`},
		{"BL\"ARG", `510 Unrecognized command "BL\"ARG"`},
		{"", `510 Unrecognized command ""`},
		{"SETROUTERPURPOSE foo", "511 SETROUTERPURPOSE is obsolete."},
		{"USEFEATURE EXTENDED_EVENTS verbose_names", "250 OK"},
		{"USEFEATURE FOO", `552 Unrecognized feature "FOO"`},
		{"TAKEOWNERSHIP", "250 OK"},
		{"DROPOWNERSHIP", "250 OK"},
		{"PROTOCOLINFO 1", `250-PROTOCOLINFO 1|250-AUTH METHODS=NULL|250-VERSION Tor="0.4.9.11-test"|250 OK`},
		{"PROTOCOLINFO 1", `250-PROTOCOLINFO 1|250-AUTH METHODS=NULL|250-VERSION Tor="0.4.9.11-test"|250 OK`},
		{"GETINFO ve\x01r", `552 Unrecognized key "ve\001r"`},
	} {
		c.send(x.ask + "\r\n")
		c.want(strings.ReplaceAll(x.want, "|", "\r\n") + "\r\n")
	}
	c.send("QUIT\r\nGETINFO version\r\n")
	c.wantEnd("250 closing connection\r\n")
}

// TestObeyed: the engine is told what was asked, and nothing of what was refused.
func TestObeyed(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	c.send("SETCONF a=b no=x\r\nSETCONF a=\"b c\" d\r\nRESETCONF e\r\n+LOADCONF\r\nX 1\r\n.\r\nSIGNAL TERM\r\nGETINFO version\r\n")
	c.want("513 Unacceptable option value: x\r\n250 OK\r\n250 OK\r\n250 OK\r\n250 OK\r\n250-version=1.2.3.4\r\n250 OK\r\n")
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	got := strings.Join(r.engine.done, "; ")
	if want := "set false[{a b c true} {d  false}]; set true[{e  false}]; load X 1\n; signal HALT"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBadAnswer: an answer that would not be one line ends the connection, and is no other reply.
func TestBadAnswer(t *testing.T) {
	c := newRig(t, Auth{}).known()
	c.send("GETINFO bad\r\n")
	if b, _ := io.ReadAll(c.in); strings.Contains(string(b), "lines") {
		t.Errorf("%q", b)
	}
}

// TestOwner: the engine hears when the connection that took ownership has ended, and of no other.
func TestOwner(t *testing.T) {
	r := newRig(t, Auth{})
	for _, c := range []string{"", "TAKEOWNERSHIP\r\nDROPOWNERSHIP\r\n"} {
		one := r.known()
		one.send(c + "QUIT\r\n")
		io.ReadAll(one.in)
	}
	select {
	case <-r.engine.disowned:
		t.Fatal("nobody had taken ownership")
	default:
	}
	one := r.known()
	one.send("TAKEOWNERSHIP\r\n")
	one.want("250 OK\r\n")
	one.Close()
	<-r.engine.disowned
}
