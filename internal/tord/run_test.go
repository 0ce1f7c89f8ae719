package tord

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/control"
)

// deadNetwork has an authority that nobody is.
const deadNetwork = "DirAuthority dead orport=1 no-v2 v3ident=0000000000000000000000000000000000000001 127.0.0.1:1 0000000000000000000000000000000000000002\nTestingTorNetwork 1\n"

// output is a program's standard output, whose lines a test waits for.
type output struct {
	mu   sync.Mutex
	cond *sync.Cond
	b    bytes.Buffer // guarded by mu
	over bool         // guarded by mu
}

func newOutput() *output {
	o := new(output)
	o.cond = sync.NewCond(&o.mu)
	return o
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cond.Broadcast()
	return o.b.Write(b)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.cond.Broadcast()
}

// wait waits for a match, and returns its first group.
func (o *output) wait(t *testing.T, re string) string {
	t.Helper()
	x := regexp.MustCompile(re)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if m := x.FindStringSubmatch(o.b.String()); m != nil {
			return m[len(m)-1]
		}
		if o.over {
			t.Fatalf("the program ended without %s:\n%s", re, o.b.String())
		}
		o.cond.Wait()
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// running is a program in this process.
type running struct {
	t       *testing.T
	dir     string
	out     *output
	signals chan os.Signal
	code    chan int
}

// start runs the program with a torrc, in which DIR is a directory of its own.
func start(t *testing.T, torrc string, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{t, dir, newOutput(), make(chan os.Signal, 4), make(chan int, 1)}
	in := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
	file := filepath.Join(dir, "torrc")
	if err := os.WriteFile(file, []byte(in("DataDirectory DIR/data\n"+torrc)), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []string{"-f", file}
	for _, a := range args {
		all = append(all, in(a))
	}
	p := Program{Args: all, Stdin: strings.NewReader(""), Stdout: r.out, Signals: r.signals}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.code <- p.Run(ctx)
		r.out.end()
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// controller is a connection to a program.
type controller struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, network, addr string) *controller {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &controller{t, c, bufio.NewReader(c)}
}

// ask sends a command and returns its reply, without events.
func (c *controller) ask(command string) string {
	c.t.Helper()
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	var b strings.Builder
	for {
		l, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("%q after %s: %v", b.String(), command, err)
		}
		event := strings.HasPrefix(l, "650")
		if !event {
			b.WriteString(strings.TrimSuffix(l, "\r\n") + "\n")
		}
		if len(l) > 3 && l[3] == '+' {
			for l != ".\r\n" {
				if l, err = c.in.ReadString('\n'); err != nil {
					c.t.Fatal(err)
				}
				b.WriteString(strings.TrimSuffix(l, "\r\n") + "\n")
			}
		} else if !event && l[3] == ' ' {
			return strings.TrimSuffix(b.String(), "\n")
		}
	}
}

func (c *controller) want(command, reply string) {
	c.t.Helper()
	if got := c.ask(command); got != reply {
		c.t.Errorf("%s: %q, want %q", command, got, reply)
	}
}

// TestProgram: the life of a program that another one starts and controls.
func TestProgram(t *testing.T) {
	r := start(t, deadNetwork+"SocksPort auto\nControlSocket DIR/s\n",
		"--ControlPort", "auto", "--CookieAuthentication", "1", "--ControlPortWriteToFile", "DIR/port", "--PidFile", "DIR/pid", "--HashedControlPassword", control.HashPassword("pw").String())
	port := r.out.wait(t, `Control listener listening on port (\d+)\.`)
	r.out.wait(t, `\[notice\] Opened Control listener connection \(ready\) on 127`)
	r.out.wait(t, `\[notice\] Bootstrapped 5% \(conn\): Connecting to a relay\n`)
	socks := r.out.wait(t, `Opened Socks listener connection \(ready\) on (\S+)`)
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	for _, first := range []string{`on 127\.0\.0\.1:` + port, `on /\S+/s`} { // txtorcon connects when it reads these
		r.out.wait(t, `\[notice\] Opening Control listener `+first+`\n`)
	}
	r.out.wait(t, `\[notice\] Opening Socks listener on \S+\n`)
	secret, err := os.ReadFile(r.dir + "/data/control_auth_cookie")
	if err != nil || len(secret) != control.CookieSize {
		t.Fatal(len(secret), err)
	}
	for _, name := range []string{"data/control_auth_cookie", "port", "s"} {
		if st, err := os.Stat(filepath.Join(r.dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Error(name, st, err)
		}
	}
	c := dial(t, "tcp", "127.0.0.1:"+port)
	c.want("AUTHENTICATE "+hex.EncodeToString(secret), "250 OK")
	u := dial(t, "unix", r.dir+"/s")
	u.want(`AUTHENTICATE "pw"`, "250 OK")
	for _, x := range [][2]string{
		{"GETINFO version", "250-version=0.4.9.11-chive\n250 OK"},
		{"GETINFO net/listeners/socks", "250-net/listeners/socks=\"" + socks + "\"\n250 OK"},
		{"GETINFO net/listeners/control", "250-net/listeners/control=\"127.0.0.1:" + port + "\" \"unix:" + r.dir + "/s\"\n250 OK"},
		{"GETINFO net/listeners/or stream-status", "250-net/listeners/or=\n250-stream-status=\n250 OK"},
		{"GETINFO net/listeners/none", `552 Unrecognized key "net/listeners/none"`},
		{"SETCONF LogMessageDomains=1 ProtocolWarnings=1", "250 OK"}, // bine's tests
		{"GETCONF LogMessageDomains ProtocolWarnings", "250-LogMessageDomains=1\n250 ProtocolWarnings=1"},
		{"RESETCONF LogMessageDomains ProtocolWarnings", "250 OK"},
		{"GETCONF LogMessageDomains ProtocolWarnings", "250-LogMessageDomains=0\n250 ProtocolWarnings=0"},
		{"GETINFO status/circuit-established status/enough-dir-info dormant", "250-status/circuit-established=0\n250-status/enough-dir-info=0\n250-dormant=0\n250 OK"},
		{"GETINFO config-can-saveconf config-file", "250-config-can-saveconf=1\n250-config-file=" + r.dir + "/torrc\n250 OK"},
		{"GETINFO address", "551 Address unknown"},
		{"GETINFO fingerprint", "551 Not running in server mode"},
		{"GETINFO exit-policy/full", "552 Not running in server mode"},
		{"GETINFO consensus/valid-after", `552 Unrecognized key "consensus/valid-after"`},
		{"GETCONF socksport MaxCircuitDirtiness", "250-SocksPort=auto\n250 MaxCircuitDirtiness=600"},
		{"SETCONF MaxCircuitDirtiness=5", "250 OK"},
		{"GETCONF MaxCircuitDirtiness", "250 MaxCircuitDirtiness=5"},
		{"SETCONF MaxCircuitDirtiness=20 ExitNodes={zz9}", ""},
		{"GETCONF MaxCircuitDirtiness", "250 MaxCircuitDirtiness=5"},
		{"SETCONF UseBridges=1", "513 Unacceptable option value: If you set UseBridges, you must specify at least one bridge."},
		{`SETCONF UseBridges=1 Bridge="127.0.0.1:9"`, "250 OK"},
		{"GETINFO entry-guards", "250-entry-guards=\n250 OK"},
		{"RESETCONF UseBridges Bridge", "250 OK"},
		{"SETCONF DisableNetwork=1", "250 OK"},
		{"GETINFO net/listeners/socks status/bootstrap-phase", "250-net/listeners/socks=\n250-status/bootstrap-phase=NOTICE BOOTSTRAP PROGRESS=0 TAG=starting SUMMARY=\"Starting\"\n250 OK"},
		{"SETCONF ControlPort=0.0.0.0:1", ""},
		{"SETCONF SocksPort=unix:\"/nowhere/x\"", "250 OK"},
		{"SETCONF DisableNetwork=0", ""},
		{"GETCONF DisableNetwork", "250 DisableNetwork=1"},
		{"RESETCONF SocksPort", "250 OK"},
		{"SIGNAL NEWNYM", "250 OK"}, {"SIGNAL NEWNYM", "250 OK"}, {"SIGNAL CLEARDNSCACHE", "250 OK"}, {"SIGNAL DUMP", "250 OK"}, {"SIGNAL ACTIVE", "250 OK"},
		{"SIGNAL DORMANT", "250 OK"}, {"GETINFO dormant", "250-dormant=1\n250 OK"}, {"SIGNAL ACTIVE", "250 OK"}, {"GETINFO dormant", "250-dormant=0\n250 OK"},
		{"POSTDESCRIPTOR", `510 Unrecognized command "POSTDESCRIPTOR"`},
		{"EXTENDCIRCUIT 0", "551 Couldn't start circuit"},
		{"EXTENDCIRCUIT 0 nosuch", `552 No such router "nosuch"`},
		{"EXTENDCIRCUIT 0 a purpose=foo", `552 Unknown purpose "foo"`},
		{"EXTENDCIRCUIT", "512 Bad arguments to EXTENDCIRCUIT: Need at least 1 argument(s)"},
		{"SETCIRCUITPURPOSE 999999 purpose=general", `552 Unknown circuit "999999"`},
		{"CLOSECIRCUIT 999999", `552 Unknown circuit "999999"`}, {"CLOSECIRCUIT", "512 Bad arguments to CLOSECIRCUIT: Need at least 1 argument(s)"},
		{"CLOSESTREAM 999999 1", `552 Unknown stream "999999"`}, {"CLOSESTREAM 1 x", `552 Unrecognized reason "x"`},
		{"ATTACHSTREAM 999999 0", `552 Unknown stream "999999"`}, {"ATTACHSTREAM 1 0 HOP=x", "552 Bad value hop=x"}, {"ATTACHSTREAM 1 0 x=1", `512 Bad arguments to ATTACHSTREAM: Unrecognized keyword argument "x"`},
		{"REDIRECTSTREAM 999999 foo", `552 Unknown stream "999999"`}, {"REDIRECTSTREAM 1 foo 0", `512 Cannot parse port "0"`},
		{"MAPADDRESS", "512 syntax error: not enough arguments to mapaddress."},
		{"DROPTIMEOUTS", "250 OK"}, {"DROPGUARDS", "250 OK"}, {"SETCONF __LeaveStreamsUnattached=1", "250 OK"},
		{"GETINFO desc/name/r0", "552 We fetch microdescriptors, not router descriptors. You'll need to use md/name/* instead of desc/name/*."},
		{"GETINFO dir/status-vote/current/consensus", "551 " + noConsensus}, {"GETINFO dir/status-vote/current/consensus-microdesc", "551 " + noConsensus},
		{"GETINFO ns/all circuit-status stream-status orconn-status md/all chive/memory", "250-ns/all=\n250-circuit-status=\n250-stream-status=\n250-orconn-status=\n250-md/all=\n250-chive/memory=HELD=0 BOUND=0\n250 OK"},
		{"GETINFO ns/id/zz", "551 Data not decodeable as hex"}, {"GETINFO ns/name/x", `552 Unrecognized key "ns/name/x"`},
	} {
		got := c.ask(x[0])
		if x[1] == "" && got[0] != '5' || x[1] != "" && got != x[1] {
			t.Errorf("%s: %q, want %q", x[0], got, x[1])
		}
	}
	for _, key := range []string{"info/names", "events/names", "signal/names", "features/names", "config/names", "config/defaults", "config-text", "process/pid", "process/uid", "process/user", "process/descriptor-limit",
		"traffic/read", "traffic/written", "uptime", "current-time/utc", "current-time/local", "address-mappings/all", "network-liveness", "accounting/enabled", "onions/current"} {
		if got := u.ask("GETINFO " + key); !strings.HasPrefix(got, "250") || !strings.HasSuffix(got, "\n250 OK") {
			t.Errorf("%s: %q", key, got)
		}
	}
	c.want("SIGNAL HALT", "250 OK")
	if code := <-r.code; code != exitOK {
		t.Errorf("exit code %d:\n%s", code, r.out)
	}
	r.out.wait(t, "Catching signal TERM, exiting cleanly.")
	for _, name := range []string{"data/control_auth_cookie", "port", "pid", "s"} {
		if _, err := os.Lstat(filepath.Join(r.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// TestReload: a signal has the torrc read again, and SAVECONF writes what is read then.
func TestReload(t *testing.T) {
	r := start(t, deadNetwork+"SocksPort 0\nControlPort unix:DIR/s\nDisableNetwork 1\n", "--MaxCircuitDirtiness", "33")
	r.out.wait(t, `\[notice\] Bootstrapped 0% \(starting\): Starting\n`)
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	c := dial(t, "unix", r.dir+"/s")
	c.want("AUTHENTICATE", "250 OK")
	c.want("SETEVENTS CONF_CHANGED SIGNAL NOTICE", "250 OK")
	c.want("SETCONF ContactInfo=\"a # b\" StrictNodes=1 __OwningControllerProcess="+"1", "250 OK")
	c.want("SAVECONF", "250 OK")
	c.want("SETCONF StrictNodes=0 ContactInfo=x", "250 OK")
	r.signals <- syscall.SIGHUP
	for {
		l, err := c.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(l, "650-StrictNodes=1") {
			break
		}
	}
	c.want("GETCONF ContactInfo StrictNodes MaxCircuitDirtiness __OwningControllerProcess", "250-ContactInfo=a # b\n250-StrictNodes=1\n250-MaxCircuitDirtiness=33\n250 __OwningControllerProcess=1")
	c.want("+LOADCONF\r\nBlahblah blah\r\n.", "552 Invalid config file: Failed to parse/validate config: Unknown option 'Blahblah'.  Failing. (LOADCONF:1)")
	c.want("+LOADCONF\r\nContactInfo x\r\n.", "553 Transition not allowed: While Tor is running, changing DataDirectory is not allowed")
	c.want("+LOADCONF\r\nDataDirectory "+r.dir+"/data\r\nControlPort unix:"+r.dir+"/s\r\nDisableNetwork 1\r\n.", "250 OK")
	c.want("GETCONF ContactInfo", "250 ContactInfo")
	c.want("SETCONF ControlPort=unix:"+r.dir+"/other", "250 OK") // this connection goes on
	if _, err := net.Dial("unix", r.dir+"/s"); err == nil {
		t.Error("the old socket is open")
	}
	other := dial(t, "unix", r.dir+"/other")
	other.want("AUTHENTICATE", "250 OK")
	other.want("TAKEOWNERSHIP", "250 OK")
	other.Close()
	if code := <-r.code; code != exitOK {
		t.Error(code)
	}
	r.out.wait(t, "Owning controller connection has closed -- exiting now.")
}

// TestMistakes: what cannot be obeyed keeps the program from starting, and says so where programs look.
func TestMistakes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for torrc, want := range map[string]string{
		"Blah 1":             "Failed to parse/validate config: Unknown option 'Blah'.  Failing. (DIR/torrc:2)",
		"BandwidthRate 1 MB": "not obeyed without an ORPort",
		"BridgeRelay 1":      "not obeyed without an ORPort",
		"ORPort " + busy.Addr().String() + "\nAddress 192.0.2.1\nSocksPort 0": "Failed to bind one of the listener ports.",
		"ORPort 127.0.0.1:1\nUseBridges 1\nBridge 192.0.2.1:1":                "they must not set UseBridges",
		"ORPort 127.0.0.1:1\nBridgeRelay 1\nBridgeDistribution https":         "BridgeDistribution is not obeyed",
		"ORPort 127.0.0.1:1\nAddress 192.0.2.1\nNickname with-a-dash":         "Failed to parse/validate config: ",
		"ControlPort 192.0.2.1:9051":                                          "can be reached from other machines",
		"ControlPort 9051 Blah":                                               "it has no flag Blah",
		"HashedControlPassword x":                                             "this is no hash of a password",
		"SocksPort x":                                                         "Invalid SocksPort configuration",
		"SocksPort 0\nEntryNodes {":                                           "Failed to parse/validate config: ",
		"Log notice android":                                                  "the log cannot go to android",
		"RunAsDaemon 1":                                                       "does not know how it was started",
		"ControlPort " + busy.Addr().String():                                 "Failed to bind one of the listener ports.",
		"TestingTorNetwork 1":                                                 "need DirAuthority lines",
		"EnforceDistinctSubnets 0":                                            "need DirAuthority lines",
		"User nobody-of-that-name":                                            "User nobody-of-that-name: ",
		"SocksPort 0\nMapAddress a.exit b":                                    "Failed to parse/validate config: ",
		"Socks5Proxy proxy.example:1":                                         "Failed to parse/validate config: ",
	} {
		r := start(t, torrc)
		if code := <-r.code; code != exitFailed {
			t.Errorf("%s: exit code %d", torrc, code)
		}
		if text := strings.ReplaceAll(r.out.String(), r.dir, "DIR"); !strings.Contains(text, want) || !strings.HasSuffix(text, "[err] Reading config failed--see warnings above.\n") {
			t.Errorf("%s:\n%s", torrc, text)
		}
	}
}

// TestActions: what prints something and ends.
func TestActions(t *testing.T) {
	for args, want := range map[string]string{
		"--version":                             "^Tor version 0\\.4\\.9\\.11-chive\\.\n",
		"--hash-password x":                     "^16:[0-9A-F]{58}\n$",
		"--list-torrc-options":                  "(?m)^SocksPort$",
		"-h":                                    "docs/control-port.md",
		"--verify-config SocksPort 0":           "Configuration was valid\n$",
		"--dump-config short SocksPort 0":       "(?m)^SocksPort 0\n$",
		"--dump-config full":                    "(?m)^MaxCircuitDirtiness 600$",
		"--list-fingerprint":                    "Clients don't have long-term identity keys",
		"--quiet --SocksPort":                   "Command-line option '--SocksPort' with no value. Failing.",
		"--verify-config --blah 1 --quiet":      "^$",
		"--verify-config --blah 1 --hush":       "^.* \\[warn\\] Failed to parse/validate config: Unknown option 'blah'.  Failing.\n",
		"--verify-config --defaults-torrc /x/y": "Configuration was valid\n$",
	} {
		r := start(t, "", strings.Fields(args)...)
		<-r.code
		if text := r.out.String(); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: %q", args, text)
		}
	}
}

// TestTorrcFromStdin: "-f -" reads the torrc from standard input, and reads it once.
func TestTorrcFromStdin(t *testing.T) {
	out := newOutput()
	p := Program{Args: []string{"-f", "-", "--dump-config", "short"}, Stdin: strings.NewReader("SocksPort 7\n"), Stdout: out}
	if code := p.Run(context.Background()); code != exitOK || out.String() != "SocksPort 7\n" {
		t.Errorf("%d %q", code, out)
	}
	p.Args, p.Stdin = []string{"-f", "/none/torrc"}, nil
	out.b.Reset()
	if code := p.Run(context.Background()); code != exitFailed || !strings.Contains(out.String(), `[warn] Unable to open configuration file "/none/torrc".`) {
		t.Errorf("%d %q", code, out)
	}
}

// stuck is an output that nobody reads.
type stuck struct{ begun, end chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	select {
	case s.begun <- struct{}{}:
	case <-s.end:
	}
	<-s.end
	return len(b), nil
}

// TestUnreadLines: a program that reads no line of the log holds nothing up, and the lines have a bound.
func TestUnreadLines(t *testing.T) {
	s := stuck{make(chan struct{}), make(chan struct{})}
	l := &logs{out: newLines(s)}
	l.use([]target{{level: slog.LevelInfo, to: l.out}})
	l.notice("the first")
	<-s.begun
	for range 3 * maxLines {
		l.notice("x")
	}
	if n := l.out.lost.Load(); n != 2*maxLines {
		t.Error(n)
	}
	l.out.end()
	close(s.end)
	<-l.out.ended
}

// TestLogLines: a line of the log is one line, with C tor's word for its level, and goes to controllers too.
func TestLogLines(t *testing.T) {
	out := newOutput()
	l := &logs{out: newLines(out)}
	l.use([]target{{level: slog.LevelInfo, to: l.out}})
	var events []string
	f := func(severity, text string) { events = append(events, severity+" "+text) }
	l.event.Store(&f)
	log := slog.New(handler{l: l}).With("a", 1).WithGroup("g")
	log.Warn("two\nlines", "k", "x\ny", slog.Group("h", "z", "a b"))
	log.Debug("more")
	l.debug.Store(true)
	log.Debug("all")
	l.out.end()
	lines := regexp.MustCompile(`(?m)^[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d\.\d{3} `).ReplaceAllString(out.String(), "")
	if want := "[warn] two?lines a=1 g.k=\"x\\ny\" g.h.z=\"a b\"\n[info] all a=1\n"; lines != want {
		t.Errorf("%q, want %q", lines, want)
	}
	if len(events) != 3 || events[1] != "INFO more a=1" {
		t.Errorf("%q", events)
	}
}

// slowReader takes a second for each line.
type slowReader struct{ got []byte }

func (r *slowReader) Write(p []byte) (int, error) {
	time.Sleep(time.Second) // of virtual time
	r.got = append(r.got, p...)
	return len(p), nil
}

// TestAnswersArrive: a program that was asked for something, or that cannot start, waits for a slow reader of what it says.
func TestAnswersArrive(t *testing.T) {
	for want, args := range map[string][]string{
		"Tor version": {"--version"}, "16:": {"--hash-password", "secret"}, "MaxCircuitDirtiness": {"-f", os.DevNull, "--dump-config", "full"},
		"no value. Failing.\n": {"--no-such-option"}, "Reading config failed--see warnings above.\n": {"-f", os.DevNull, "--ControlPort", "192.0.2.1:9051"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out slowReader
			p := Program{Args: args, Stdin: strings.NewReader(""), Stdout: &out}
			p.Run(t.Context())
			if !strings.Contains(string(out.got), want) {
				t.Errorf("%q: %q", args, out.got)
			}
		})
	}
}
