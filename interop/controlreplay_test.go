package interop

import (
	"bufio"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// replayed are commands, in the order in which both programs get them. Many of them ask for what nobody has, or are wrong.
const replayed = `
GETINFO version events/names signal/names features/names
GETINFO config-can-saveconf dormant process/pid process/uid process/user process/descriptor-limit limits/max-mem-in-queues uptime
GETINFO traffic/read traffic/written network-liveness
GETINFO status/bootstrap-phase status/circuit-established status/enough-dir-info status/version/current status/version/recommended
GETINFO status/clients-seen
GETINFO status/reachability-succeeded status/reachability-succeeded/or
GETINFO net/listeners/socks net/listeners/control net/listeners/or net/listeners/dns net/listeners/httptunnel net/listeners/metrics
GETINFO circuit-status
GETINFO stream-status
GETINFO orconn-status
GETINFO entry-guards
GETINFO ns/name/relay0
GETINFO ns/all
GETINFO ns/purpose/bridge
GETINFO md/name/relay0
GETINFO desc/name/relay0
GETINFO desc/all-recent
GETINFO md/download-enabled desc/download-enabled
GETINFO consensus/valid-after consensus/fresh-until consensus/valid-until
GETINFO consensus/packages consensus/shared-random-current-value
GETINFO sr/current sr/previous
GETINFO onions/current onions/detached
GETINFO address
GETINFO fingerprint
GETINFO address-mappings/all address-mappings/config
GETINFO ip-to-country/ipv4-available ip-to-country/8.8.8.8 ip-to-country/127.0.0.1
GETINFO exit-policy/default
GETINFO exit-policy/full
GETINFO accounting/enabled
GETINFO accounting/bytes
GETINFO blarg version
GETINFO
GETINFO config-text
GETINFO config/names
GETINFO bw-event-cache
GETCONF SocksPort ControlPort ORPort Bridge UseBridges DisableNetwork Log DataDirectory ExitNodes __OwningControllerProcess
GETCONF HiddenServiceOptions
GETCONF blarg
GETCONF
SETCONF blarg=1
SETCONF MaxCircuitDirtiness=5
SETCONF MaxCircuitDirtiness=abc
SETCONF DataDirectory=/tmp/xx
SETCONF User=nobody
SETEVENTS BLARG
SETEVENTS PT_LOG
SETEVENTS
SIGNAL FOO
SIGNAL
BLARG
ADD_ONION NEW:BEST Port=80,20503 PoWDefensesEnabled=1
ADD_ONION NEW:BEST Port=80,20503 Flags=DiscardPK PoWDefensesEnabled=1 PoWQueueRate=100 PoWQueueBurst=200
ADD_ONION NEW:BEST Port=80,20503 Bla=1
ADD_ONION NEW:RSA1024 Port=80
ADD_ONION NEW:BEST
ADD_ONION NEW:BEST Port=abc
ADD_ONION NEW:BEST Port=80 Flags=V3Auth
ADD_ONION ED25519-V3:AAAA Port=80
ADD_ONION NEW:BEST Port=80 Flags=Bad
DEL_ONION abc
DEL_ONION aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad
ONION_CLIENT_AUTH_VIEW
ONION_CLIENT_AUTH_ADD ug3ybszu5xm4qcmyxjk5vq6273og3pt77gjptn4d347hqehp74rksiqd x25519:uBKh6DGrkcFxB1adYuyKQltUDDUT9IZrOsne3nfHbHI= Flags=Permanent
ONION_CLIENT_AUTH_ADD ug3ybszu5xm4qcmyxjk5vq6273og3pt77gjptn4d347hqehp74rksiqd x25519:uBKh6DGrkcFxB1adYuyKQltUDDUT9IZrOsne3nfHbHI=
ONION_CLIENT_AUTH_VIEW
ONION_CLIENT_AUTH_REMOVE ug3ybszu5xm4qcmyxjk5vq6273og3pt77gjptn4d347hqehp74rksiqd
HSFETCH abc
HSFETCH
EXTENDCIRCUIT 0 relay0,relay1,exit0
EXTENDCIRCUIT 0 nosuch
EXTENDCIRCUIT 0 relay0 purpose=foo
SETCIRCUITPURPOSE 999999 purpose=general
CLOSECIRCUIT 999999
CLOSESTREAM 999999 1
ATTACHSTREAM 999999 0
REDIRECTSTREAM 999999 foo
MAPADDRESS 1.2.3.4=foo.example .=bar.example
RESOLVE name.invalid
USEFEATURE EXTENDED_EVENTS VERBOSE_NAMES
USEFEATURE FOO
DROPTIMEOUTS
DROPGUARDS
TAKEOWNERSHIP
DROPOWNERSHIP
SAVECONF
SETROUTERPURPOSE foo
GETINFO circuit-status
PROTOCOLINFO 1
SIGNAL HEARTBEAT
SIGNAL DORMANT
GETINFO dormant
SIGNAL ACTIVE
QUIT
`

// replayDifferences are the commands that Chive answers otherwise than C tor: its answer, with what changes masked
// ("": any other), and why.
var replayDifferences = map[string]struct{ chive, why string }{
	"GETINFO dormant": {"", "after SIGNAL DORMANT it is 1, as control-spec says"},
}

// replayShapes are what is not the same twice: each line of the value must look so, with both programs. There may be none.
var replayShapes = map[string]string{
	"circuit-status": `^\d+ (LAUNCHED|EXTENDED|BUILT|GUARD_WAIT)( \$[0-9A-F]{40}(~\w+)?(,\$[0-9A-F]{40}(~\w+)?)*)?( BUILD_FLAGS=[A-Z_,]+)? PURPOSE=[A-Z_]+( HS_STATE=\w+)?( REND_QUERY=\w*)? TIME_CREATED=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}( CONFLUX_ID=[0-9A-F]+)?( CONFLUX_RTT=\d+)?$`,
	"orconn-status":  `^\$[0-9A-F]{40}~\w+ (CONNECTED|LAUNCHED)$`,
	"entry-guards":   `^\$[0-9A-F]{40}~\w+ (up|never-connected|(down|unusable|unlisted)( \d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?)$`,
	"md/all":         `.`,
}

// replayMasks replace what differs from run to run.
var replayMasks = []struct{ pattern, by string }{
	{`\b0\.4\.\d+\.\d+(-alpha|-rc|-dev|-chive)*`, "VERSION"},
	{`((?:process/pid|process/descriptor-limit|limits/max-mem-in-queues|uptime|traffic/read|traffic/written|EXTENDED)[= ])\d+`, "${1}N"},
	{`127\.0\.0\.1:\d+`, "ADDRESS"},
	{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"},
	{`(bw-event-cache=)\d+,\d+( \d+,\d+)*`, "${1}N"},
	{`TimeStarted="TIME"`, `TimeStarted=TIME`},
	{`w Bandwidth=\d+( Unmeasured=1)?`, "w"},
	{`(?m)^s .*$`, "s"},
	{`ServiceID=[a-z2-7]{56}`, "ServiceID=X"},
	{`PrivateKey=ED25519-V3:[A-Za-z0-9+/=]{88}`, "PrivateKey=X"},
	{`[a-z2-7]{16}\.virtual`, "X.virtual"},
	{`(sr/(?:current|previous))=\S+`, "$1=X"},
	{`(?m)^(AuthDirSupport048Clients|DoSBeginDir\w+) .*\n`, ""}, // which C tor 0.4.9.11 does not have
}

// TestControlReplay sends the same commands to C tor and to chive by the name tor, each a client of one network with the
// same torrc, and compares the answers, and before that what they count of a transfer.
func TestControlReplay(t *testing.T) {
	own, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	nw, err := ctor.Start(bounded(t, patience), ctor.Options{Relays: 4, Exits: 2, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	theirs := startReplay(t, nw, own)
	ours := startReplay(t, nw, torProgram(t))
	compareCounters(t, theirs.count(), ours.count())
	commands := strings.Split(strings.Trim(replayed, "\n"), "\n")
	for i, command := range commands {
		a, b := theirs.ask(command), ours.ask(command)
		known, differs := replayDifferences[command]
		switch {
		case a == b && differs:
			t.Errorf("%s: both answer %q: it is no difference any more", command, a)
		case a != b && !differs:
			t.Errorf("%s: C tor answers\n%s\nand Chive\n%s", command, a, b)
		case a != b && known.chive != "" && b != known.chive:
			t.Errorf("%s: Chive answers\n%s\nwant\n%s", command, b, known.chive)
		}
		if slices.Index(commands, command) != i && differs {
			t.Errorf("%s is there twice: it cannot be in the table", command)
		}
	}
	for command := range replayDifferences {
		if !slices.Contains(commands, command) {
			t.Errorf("%s is in the table, and not sent", command)
		}
	}
}

// replayer is a controller of a program.
type replayer struct {
	t      *testing.T
	dir    string
	conn   net.Conn
	in     *bufio.Reader
	shapes map[string]*regexp.Regexp
	masks  []*regexp.Regexp
}

// startReplay starts a program as a client of the network and returns a controller when it can carry traffic.
func startReplay(t *testing.T, nw *ctor.Network, program string) *replayer {
	t.Helper()
	r := &replayer{t: t, dir: t.TempDir(), shapes: map[string]*regexp.Regexp{}}
	for key, s := range replayShapes {
		r.shapes[key] = regexp.MustCompile(s)
	}
	for _, m := range replayMasks {
		r.masks = append(r.masks, regexp.MustCompile(m.pattern))
	}
	torrc := filepath.Join(r.dir, "torrc")
	text := "DataDirectory " + r.dir + "/data\nSocksPort auto\nControlPort auto\nControlPortWriteToFile " + r.dir + "/port\nCookieAuthentication 1\nLog notice file " + r.dir + "/log\nTestingTorNetwork 1\n"
	for l := range strings.Lines(nw.Torrc()) {
		if strings.HasPrefix(l, "DirAuthority") || strings.HasPrefix(l, "EnforceDistinctSubnets") {
			text += l
		}
	}
	if err := os.WriteFile(torrc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-f", torrc, "--quiet")
	cmd.Env = append(os.Environ(), "HOME="+r.dir)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", program, err)
		}
	})
	var address string
	await(t, "the port for controllers", patience, func() bool {
		b, err := os.ReadFile(r.dir + "/port")
		address = strings.TrimSpace(strings.TrimPrefix(string(b), "PORT="))
		return err == nil && address != ""
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.conn, r.in = conn, bufio.NewReader(conn)
	var cookie []byte
	await(t, "the cookie", patience, func() bool { // C tor writes it after the file with the port
		cookie, err = os.ReadFile(r.dir + "/data/control_auth_cookie")
		return err == nil && len(cookie) == 32
	})
	if got := r.ask("AUTHENTICATE " + hex.EncodeToString(cookie)); got != "250 OK" {
		t.Fatalf("%s: %s", program, got)
	}
	await(t, program+" carries traffic", patience, func() bool {
		return strings.Contains(r.ask("GETINFO status/bootstrap-phase"), "PROGRESS=100")
	})
	await(t, program+" knows all relays", patience, func() bool {
		return strings.Count(r.ask("GETINFO ns/all"), "\nr ") == len(nw.Routers())
	})
	return r
}

// ask sends a command and returns its reply, masked.
func (r *replayer) ask(command string) string {
	r.t.Helper()
	if err := r.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(r.conn, command+"\r\n"); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	line := func() string {
		l, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%s: %v after %q", command, err, out)
		}
		return strings.TrimRight(l, "\r\n")
	}
	for {
		l := line()
		if len(l) < 4 {
			r.t.Fatalf("%s: %q", command, l)
		}
		shape := r.shapes[strings.TrimSuffix(l[4:], "=")]
		if shape != nil && l[3] == '-' { // there is none at the moment
			out = append(out, "250+"+l[4:], ".")
			continue
		}
		out = append(out, l)
		if l[3] == '+' {
			for l = line(); l != "."; l = line() {
				switch {
				case shape == nil:
					out = append(out, l)
				case !shape.MatchString(l):
					out = append(out, "not of the form: "+l)
				}
			}
			out = append(out, ".")
		} else if l[3] == ' ' {
			break
		}
	}
	text := strings.ReplaceAll(strings.Join(out, "\n"), r.dir, "DIR")
	for i, m := range r.masks {
		text = m.ReplaceAllString(text, replayMasks[i].by)
	}
	return text
}
