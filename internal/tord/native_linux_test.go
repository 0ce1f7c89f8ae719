package tord

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/netfile"
)

// nativeProcess is a process of Chive's with ports for controllers.
type nativeProcess struct {
	t      *testing.T
	dir    string
	out    *output
	log    *output
	hangup chan os.Signal
	done   chan error
	native *Native
}

// deadDir makes a directory with a network file of a network that nobody is in.
func deadDir(t *testing.T) (dir string, n *chive.Network) {
	t.Helper()
	d, err := netfile.ImportTorrc("torrc", "torrc", []byte(deadNetwork))
	if err != nil {
		t.Fatal(err)
	}
	text, err := netfile.Format(d)
	if err != nil {
		t.Fatal(err)
	}
	if n, err = chive.ParseNetwork(text); err != nil {
		t.Fatal(err)
	}
	if dir, err = os.MkdirTemp("", "native"); err != nil { // a socket's path must be short
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir, n
}

// native starts a process; DIR in its file is a directory of its own.
func native(t *testing.T, s *daemon.Settings, file string) *nativeProcess {
	t.Helper()
	dir, n := deadDir(t)
	p := &nativeProcess{t, dir, newOutput(), newOutput(), make(chan os.Signal, 1), make(chan error, 1), NewNative()}
	p.write("chive.toml", "data-dir = 'DIR/data'\n"+file)
	s.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if err := s.Load(filepath.Join(dir, "chive.toml")); err != nil {
		t.Fatal(err)
	}
	s.SetNetwork(n)
	stop := make(chan os.Signal, 2)
	run := daemon.Process{Settings: s, Out: p.out, Err: p.log, Hangup: p.hangup, Stop: stop, Controllers: p.native}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.done <- run.Run(context.Background())
		p.out.end()
		p.log.end()
	}()
	t.Cleanup(func() {
		stop <- syscall.SIGTERM
		stop <- syscall.SIGTERM
		<-ended
		if t.Failed() {
			t.Log(p.log)
		}
	})
	return p
}

func (p *nativeProcess) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(strings.ReplaceAll(text, "DIR", p.dir)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// known connects to a socket in the directory, and authenticates.
func (p *nativeProcess) known(name string) *controller {
	p.t.Helper()
	c := dial(p.t, "unix", filepath.Join(p.dir, name))
	c.want("AUTHENTICATE", "250 OK")
	return c
}

func (c *controller) begins(command, reply string) {
	c.t.Helper()
	if got := c.ask(command); !strings.HasPrefix(got, reply) {
		c.t.Errorf("%s: %q, want %q", command, got, reply)
	}
}

// TestNativeProxy: a controller sees and steers a client that keeps its options in Chive's file, and is told where these are.
func TestNativeProxy(t *testing.T) {
	p := native(t, daemon.NewProxySettings(), "socks = '127.0.0.1:0'\nexclude-nodes = '192.0.2.0/24'\ncontrol = [ 'unix:DIR/c', '127.0.0.1:0' ]\ncontrol-password = '"+control.HashPassword("pw").String()+"'\n")
	socks := p.out.wait(t, `(?m)^socks (\S+)$`)
	p.out.wait(t, `(?m)^control `+p.dir+`/c$`)
	tcp := p.out.wait(t, `(?m)^control (127\.0\.0\.1:\d+)$`)
	file, data := filepath.Join(p.dir, "chive.toml"), filepath.Join(p.dir, "data")
	if st, err := os.Stat(filepath.Join(p.dir, "c")); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}

	c := dial(t, "unix", filepath.Join(p.dir, "c"))
	c.want("PROTOCOLINFO", "250-PROTOCOLINFO 1\n250-AUTH METHODS=NULL\n250-VERSION Tor=\""+Version+"\"\n250 OK")
	c.want("AUTHENTICATE", "250 OK")
	c.want("GETINFO net/listeners/socks", "250-net/listeners/socks=\""+socks+"\"\n250 OK")
	c.want("GETINFO net/listeners/control", fmt.Sprintf("250-net/listeners/control=\"unix:%s/c\" %q\n250 OK", p.dir, tcp))
	c.want("GETINFO config-file", "250-config-file="+file+"\n250 OK")
	if got := c.ask("GETINFO status/bootstrap-phase"); !strings.Contains(got, " BOOTSTRAP PROGRESS=") { // NOTICE, or WARN: nobody answers
		t.Errorf("%q", got)
	}
	c.want("GETINFO fingerprint", "551 Not running in server mode")
	c.want("GETINFO chive/relay/memory", "551 Not running in server mode")
	c.want("GETINFO config/defaults", `552 Unrecognized key "config/defaults"`)
	c.want("GETCONF datadirectory EXCLUDENODES HiddenServiceSingleHopMode __OwningControllerProcess", "250-DataDirectory="+data+"\n250-ExcludeNodes=192.0.2.0/24\n250-HiddenServiceSingleHopMode=0\n250 __OwningControllerProcess")
	c.want("GETCONF ORPort", "250 ORPort")
	c.want("GETCONF UseBridges", `552 Unrecognized configuration key "UseBridges"`)
	c.want("GETCONF Blarg", `552 Unrecognized configuration key "Blarg"`)
	for l := range strings.Lines(c.ask("GETINFO config/names")) { // txtorcon asks for each
		if name, _, ok := strings.Cut(strings.TrimSpace(l), " "); ok && !strings.HasPrefix(l, "250") {
			c.begins("GETCONF "+name, "250 "+name)
		}
	}

	// What the file has, only the file changes.
	c.want("SETCONF ExcludeNodes=198.51.100.0/24", "553 Unable to set option: the option exclude-nodes of this process is in "+file+": change it there, and send SIGNAL RELOAD")
	c.want("RESETCONF NumCPUs", "553 Unable to set option: the options of this process are in "+file+": change them there, and send SIGNAL RELOAD")
	c.want("SETCONF Blarg=1", "552 Unrecognized option: Unknown option 'Blarg'.  Failing.")
	c.want("SETCONF __LeaveStreamsUnattached=1 ExcludeNodes=1.2.3.4", "553 Unable to set option: the option exclude-nodes of this process is in "+file+": change it there, and send SIGNAL RELOAD")
	c.want("GETCONF __LeaveStreamsUnattached", "250 __LeaveStreamsUnattached=0")
	c.want("SETCONF __LeaveStreamsUnattached=2", "513 Unacceptable option value: Invalid __LeaveStreamsUnattached: it is 0 or 1")
	c.want("SETCONF __LeaveStreamsUnattached=1", "250 OK")
	c.want("GETCONF __LeaveStreamsUnattached", "250 __LeaveStreamsUnattached=1")
	c.want("RESETCONF __LeaveStreamsUnattached", "250 OK")
	c.want("GETCONF __LeaveStreamsUnattached", "250 __LeaveStreamsUnattached=0")
	c.begins("SAVECONF", "551 Unable to write configuration to disk: the options of this process are in "+file)
	c.begins("+LOADCONF\r\nSocksPort 0\r\n.", "553 Transition not allowed: the options of this process are in "+file)

	p.write("chive.toml", "data-dir = 'DIR/data'\nsocks = '127.0.0.1:0'\nexclude-nodes = '198.51.100.0/24'\nsafe-socks = true\n")
	c.want("SETEVENTS NOTICE SIGNAL", "250 OK")
	c.want("SIGNAL RELOAD", "250 OK")
	c.event("650 SIGNAL RELOAD\r\n")
	c.event("650 NOTICE reloaded changed=[exclude-nodes]\r\n")
	c.want("GETCONF ExcludeNodes SafeSocks", "250-ExcludeNodes=198.51.100.0/24\n250 SafeSocks=0") // the second waits for a start

	// The other port asks who it is.
	s := dial(t, "tcp", tcp)
	s.want("PROTOCOLINFO", "250-PROTOCOLINFO 1\n250-AUTH METHODS=COOKIE,SAFECOOKIE,HASHEDPASSWORD COOKIEFILE="+ctlwire.Quote(filepath.Join(data, "control_auth_cookie"))+"\n250-VERSION Tor=\""+Version+"\"\n250 OK")
	s.begins("AUTHENTICATE", "515 Authentication failed")
	cookie, err := os.ReadFile(filepath.Join(data, "control_auth_cookie"))
	if err != nil {
		t.Fatal(err)
	}
	dial(t, "tcp", tcp).want("AUTHENTICATE "+hex.EncodeToString(cookie), "250 OK")
	dial(t, "tcp", tcp).want(`AUTHENTICATE "pw"`, "250 OK")
	dial(t, "tcp", tcp).begins(`AUTHENTICATE "pW"`, "515 Authentication failed")

	c.begins("ADD_ONION NEW:BEST Port=80", "250-ServiceID=")
	c.want("SIGNAL HALT", "250 OK")
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(data, "control_auth_cookie")); !os.IsNotExist(err) {
		t.Error("the cookie stays:", err)
	}
}

// event reads lines until one is this.
func (c *controller) event(line string) {
	c.t.Helper()
	for {
		l, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("before %q: %v", line, err)
		}
		if l == line {
			return
		}
	}
}

// TestNativeRelay: a controller sees a relay, and can do nothing that only a client can.
func TestNativeRelay(t *testing.T) {
	p := native(t, daemon.NewRelaySettings(), "nickname = 'mine'\norport = '127.0.0.1:0'\nassume-reachable = true\nexit-policy = 'accept 192.0.2.0/24:80,reject *:*'\nipv6-exit = true\naccounting-max = 1000000000\naccounting-rule = 'sum'\ncontrol = 'unix:DIR/c'\n")
	or, id := p.out.wait(t, `(?m)^orport (\S+)$`), p.out.wait(t, `(?m)^fingerprint (\S+) `)
	p.out.wait(t, `(?m)^control `)
	c := p.known("c")
	c.want("GETINFO fingerprint", "250-fingerprint="+strings.ToUpper(id)+"\n250 OK")
	c.want("GETINFO address address/v4", "250-address=127.0.0.1\n250-address/v4=127.0.0.1\n250 OK")
	c.want("GETINFO address/v6", "551 Address unknown")
	c.want("GETINFO net/listeners/or net/listeners/dir", fmt.Sprintf("250-net/listeners/or=%q\n250-net/listeners/dir=\n250 OK", or))
	c.want("GETINFO exit-policy/ipv6", "250+exit-policy/ipv6=\nreject6 [::]/8:*\nreject6 [fc00::]/7:*\nreject6 [fe80::]/10:*\nreject6 [fec0::]/10:*\nreject6 [ff00::]/8:*\nreject6 *:*\n.\n250 OK")
	c.want("GETINFO exit-policy/blarg", `552 Unrecognized key "exit-policy/blarg"`)
	if got := c.ask("GETINFO exit-policy/full"); !strings.HasPrefix(got, "250+exit-policy/full=\nreject ") || !strings.HasSuffix(got, "\naccept 192.0.2.0/24:80\nreject *:*\nreject6 *:*\n.\n250 OK") {
		t.Errorf("%q", got)
	}
	c.begins("GETINFO exit-policy/reject-private/default", "250-exit-policy/reject-private/default=reject 0.0.0.0/8:*,")
	c.want("GETINFO accounting/enabled accounting/hibernating accounting/bytes accounting/bytes-left", "250-accounting/enabled=1\n250-accounting/hibernating=awake\n250-accounting/bytes=0 0\n250-accounting/bytes-left=1000000000 1000000000\n250 OK")
	c.begins("GETINFO accounting/interval-end", "250-accounting/interval-end=2")
	c.begins("GETINFO chive/relay/accounting", "250-chive/relay/accounting=STATE=awake MAX=1000000000 USED=0 START=")
	c.begins("GETINFO chive/relay/memory", "250-chive/relay/memory=HELD=")
	c.want("GETINFO chive/relay/circuits", "250-chive/relay/circuits=OPEN=0 STREAMS=0 ONIONSKINS=0 DROPPED=0\n250 OK")
	c.want("GETINFO chive/relay/links", "250-chive/relay/links=RELAYS=0 OTHERS=0 IN=0 OUT=0 QUEUED=0\n250 OK")
	c.want("GETINFO chive/relay/onions", "250-chive/relay/onions=DESCRIPTORS=0 BYTES=0\n250 OK")
	c.begins("GETINFO chive/relay/consensus", "250-chive/relay/consensus=LISTED=0 WEIGHT=0 FLAGS=\"\" ACCEPTED=0/1")
	c.want("GETINFO orconn-status circuit-status ns/all", "250-orconn-status=\n250-circuit-status=\n250-ns/all=\n250 OK")
	c.want("GETINFO status/reachability-succeeded", "250-status/reachability-succeeded=OR=1 DIR=1\n250 OK")
	c.want("GETCONF Nickname ORPort SocksPort AccountingRule ExitRelay ExitPolicyRejectPrivate", "250-Nickname=mine\n250-ORPort=127.0.0.1:0\n250-SocksPort\n250-AccountingRule=sum\n250-ExitRelay=1\n250 ExitPolicyRejectPrivate=1")

	const no = "551 this process is a relay: a client can do that, such as chive proxy"
	address := strings.TrimSuffix(onionAddress(t), ".onion")
	for _, ask := range []string{"ADD_ONION NEW:BEST Port=80", "ONION_CLIENT_AUTH_ADD " + address + " x25519:" + strings.Repeat("k", 43) + "=", "HSFETCH " + address, "DROPGUARDS", "DROPTIMEOUTS"} {
		c.begins(ask, no)
	}
	c.begins("MAPADDRESS 1.2.3.4=5.6.7.8", "551 this process is a relay")
	c.begins("SETCONF __LeaveStreamsUnattached=1", "553 Unable to set option: the options of this process are in ")
	c.begins("EXTENDCIRCUIT 0", "551 ")
	c.want("SETEVENTS BW", "250 OK")
	c.event("650 BW 0 0\r\n")
	c.want("TAKEOWNERSHIP", "250 OK")
	c.Close()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}

// onionAddress makes an address that nobody serves.
func onionAddress(t *testing.T) string {
	t.Helper()
	k, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	return k.Address()
}

// TestNativeRefused: what would let strangers in is refused before anything is open.
func TestNativeRefused(t *testing.T) {
	dir, n := deadDir(t)
	for line, want := range map[string]string{
		"192.0.2.1:9051":                               "can be reached from other machines",
		"[::]:9051":                                    "can be reached from other machines",
		"unix:" + dir + "/c GroupWritable":             "other users would have all power",
		"unix:" + dir + "/c WorldWritable":             "other users would have all power",
		"unix:" + dir + "/c IsolateDestAddr":           "no flag of a port for controllers",
		"unix:" + dir + "/c AllowList=list":            "give an absolute path",
		"unix:" + dir + "/c AllowList=/nowhere":        "no such file",
		"9051 GroupWritable":                           "for unix sockets only",
		"unix:" + dir + "/c AllowList=/a AllowList=/b": "one AllowList=",
		"blarg": "neither PORT",
	} {
		for _, s := range []*daemon.Settings{daemon.NewProxySettings(), daemon.NewRelaySettings()} {
			s.SetNetwork(n)
			err := s.ReadFile("f.toml", []byte("data-dir = '"+dir+"/d'\norport = '127.0.0.1:0'\ncontrol = '"+line+"'\n"))
			if s.Find("orport") == nil {
				s = daemon.NewProxySettings()
				s.SetNetwork(n)
				err = s.ReadFile("f.toml", []byte("data-dir = '"+dir+"/d'\ncontrol = '"+line+"'\n"))
			}
			if err == nil {
				err = s.Check()
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "control") {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// TestNativeAllowList: no way to write a command gets around a list, and another list counts when it is read.
func TestNativeAllowList(t *testing.T) {
	dir, _ := deadDir(t)
	list := filepath.Join(dir, "list")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("GETINFO version\nSIGNAL NEWNYM\nSETEVENTS STATUS_CLIENT\nSETCONF __LeaveStreamsUnattached=0\n")
	p := native(t, daemon.NewProxySettings(), "socks = '127.0.0.1:0'\ncontrol = ['unix:DIR/few GroupWritable AllowList="+list+"', 'unix:DIR/all']\n")
	p.out.wait(t, `(?m)^control \S+/all$`)
	if st, err := os.Stat(filepath.Join(p.dir, "few")); err != nil || st.Mode().Perm() != 0o660 {
		t.Error(st, err)
	}
	few := p.known("few")
	few.begins("GETINFO version", "250-version=")
	few.begins("getinfo   version", "250-version=")
	const no = "510 Command filtered"
	for _, ask := range []string{
		"GETINFO config-file", "GETINFO version config-file", "getinfo version\tconfig-file", "GetInfo VERSION", `GETINFO "version"`, "GETINFO version*", "GETINFO  address-mappings/all  version",
		"SIGNAL HALT", "signal halt", "SIGNAL  RELOAD", "SIGNAL NEWNYM HALT", "SIGNAL \"HALT\"", "SETEVENTS STREAM", "SETEVENTS status_client stream", "SETEVENTS EXTENDED STREAM",
		"SETCONF __LeaveStreamsUnattached=1", `SETCONF __LeaveStreamsUnattached="1"`, `SETCONF __leavestreamsunattached="\61"`, "SETCONF __LeaveStreamsUnattached=0 __LeaveStreamsUnattached=1",
		"RESETCONF __LeaveStreamsUnattached", "TAKEOWNERSHIP", "takeownership", "GETCONF DataDirectory", "MAPADDRESS a=b", "DROPGUARDS", "ADD_ONION NEW:BEST Port=80", "BLARG",
		"+GETINFO config-file\r\nversion\r\n.", "+SIGNAL\r\nHALT\r\n.", "+POSTDESCRIPTOR\r\nGETINFO config-file\r\n.", "+LOADCONF\r\nSocksPort 0\r\n.", "USEFEATURE VERBOSE_NAMES",
	} {
		few.want(ask, no)
	}
	all := p.known("all")
	all.begins("GETINFO config-file", "250-config-file=")

	write("GETINFO config-file\n")
	all.want("SETEVENTS NOTICE ERR", "250 OK")
	all.want("SIGNAL RELOAD", "250 OK")
	all.event("650 NOTICE reloaded changed=[]\r\n")
	few.begins("GETINFO config-file", "250-config-file=")
	few.want("GETINFO version", no)
	write("GETINFO version\nBLARG\n")
	all.want("SIGNAL RELOAD", "250 OK")
	p.log.wait(t, `the settings in use stay.*list:2: `)
	few.begins("GETINFO config-file", "250-config-file=") // a mistake changes nothing
}

// asOther is set for a process of TestNativeStranger: the socket that it tries.
const asOther = "CHIVE_TEST_STRANGER"

// TestNativeStranger: another user is refused by the kernel's word, even if the file of the socket lets it in.
func TestNativeStranger(t *testing.T) {
	if at := os.Getenv(asOther); at != "" {
		c, err := net.Dial("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "AUTHENTICATE\r\nGETINFO version\r\n"); err != nil && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Fatalf("a stranger got %q", b)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can become another user")
	}
	p := native(t, daemon.NewProxySettings(), "socks = '127.0.0.1:0'\ncontrol = 'unix:DIR/c'\n")
	p.out.wait(t, `(?m)^control `)
	at := filepath.Join(p.dir, "c")
	program := filepath.Join(p.dir, "stranger") // where nobody can read it
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	for name, mode := range map[string]os.FileMode{at: 0o666, p.dir: 0o755} {
		if err == nil {
			err = os.Chmod(name, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestNativeStranger$", "-test.v")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), asOther+"="+at)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestNativeStranger")) {
		t.Errorf("%v\n%s", err, out)
	}
	p.log.wait(t, `a connection to the control port was refused`)
	p.known("c").begins("GETINFO version", "250-version=")
}

// TestNativeHostile: many connections, a long line and a reader that does not read cost a process nothing, and others are served.
func TestNativeHostile(t *testing.T) {
	p := native(t, daemon.NewProxySettings(), "socks = '127.0.0.1:0'\nlog-level = 'error'\ncontrol = ['unix:DIR/c', '127.0.0.1:0']\n")
	tcp := p.out.wait(t, `(?m)^control (127\S+)$`)
	good := p.known("c")
	for range 64 { // strangers
		dial(t, "tcp", tcp)
	}
	good.begins("GETINFO version", "250-version=")
	var all []*controller
	for range 62 {
		all = append(all, p.known("c"))
	}
	last := dial(t, "unix", filepath.Join(p.dir, "c"))
	last.want("AUTHENTICATE", "250 OK")
	if _, err := dial(t, "unix", filepath.Join(p.dir, "c")).in.ReadByte(); err == nil {
		t.Error("more than 64 are served")
	}
	long := all[0]
	go io.WriteString(long, strings.Repeat("a", 1<<20)+"\r\n")
	if l, err := long.in.ReadString('\n'); l != "500 Line too long.\r\n" {
		t.Errorf("%q %v", l, err)
	}
	// A reader that does not read its events.
	slow := all[1]
	slow.want("SETEVENTS BW", "250 OK")
	const size, most = 64 << 10, 200 // more than what may wait, and what the kernel keeps
	for range most {
		if err := p.native.server.Event("BW", strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := io.ReadAll(slow.in); len(b) >= size*most {
		t.Error("it got them all:", err)
	}
	good.begins("GETINFO version", "250-version=")
}
