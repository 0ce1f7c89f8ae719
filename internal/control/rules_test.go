package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/ctlwire"
)

// listed returns a rig whose port has an allow list.
func listed(t *testing.T, text string) (*rig, *wheel, *atomic.Pointer[Rules]) {
	t.Helper()
	var now atomic.Pointer[Rules]
	now.Store(rulesOf(t, text))
	r := newRigWith(t, Auth{}, Door{Admit: OwnUser, Rules: now.Load})
	w := &wheel{}
	r.srv.cfg.Steering = w
	return r, w, &now
}

func rulesOf(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := ParseRules("list", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const no = "510 Command filtered\r\n"

// TestRulesLetNothingElse: without a rule, no command does anything, however it is written.
func TestRulesLetNothingElse(t *testing.T) {
	r, w, _ := listed(t, "GETINFO version\n")
	c := r.known()
	for name := range handlers {
		if name == "GETINFO" || name == "QUIT" || name == "PROTOCOLINFO" || name == "AUTHENTICATE" || name == "AUTHCHALLENGE" {
			continue
		}
		for _, form := range []string{"%s", "%s version version a", " %s\tlog", "+%s\r\nA 1\r\n.", "+%s 1 2\r\n..\r\n."} {
			c.do(fmt.Sprintf(form, name), no)
			c.do(fmt.Sprintf(form, strings.ToLower(name)), no)
		}
	}
	c.do("BLARG", no)
	c.do("GETINFO version", "250-version=1.2.3.4\r\n250 OK\r\n")
	c.do("getinfo \t version\tversion", "250-version=1.2.3.4\r\n250-version=1.2.3.4\r\n250 OK\r\n")
	c.do("PROTOCOLINFO 1", "250-PROTOCOLINFO 1\r\n250-AUTH METHODS=NULL\r\n250-VERSION Tor=\"0.4.9.11-test\"\r\n250 OK\r\n")
	if got := r.engine.told(); len(got) > 0 || w.take() != "" {
		t.Errorf("done: %v", got)
	}
	c.send("QUIT\r\n")
	c.wantEnd("250 closing connection\r\n")
}

// TestRulesOfWords: each word is looked at, keys in their case and other names in any.
func TestRulesOfWords(t *testing.T) {
	r, _, now := listed(t, "GETINFO version\nGETINFO ma*\nGETINFO stream answer=\"no \\\"x\\\"\"\nGETCONF Log\nGETCONF orport answer=1\nUSEFEATURE VERBOSE_NAMES\nSIGNAL NEWNYM\nSIGNAL HUP ignore\n")
	c := r.known()
	for _, x := range [][2]string{
		{"GETINFO version many", "250-version=1.2.3.4\r\n250+many=\r\na\r\n..b\r\n\r\nc\r\n.\r\n250 OK\r\n"},
		{"GETINFO version empty", no},
		{"GETINFO VERSION", no},
		{"GETINFO versio", no},
		{"GETINFO version2", no},
		{"GETINFO \"version\"", no},
		{"GETINFO version=1", no},
		{"GETINFO version\vempty", no},
		{"GETINFO version\u00a0empty", no},
		{"GETINFO stream", "250-stream=no \"x\"\r\n250 OK\r\n"},
		{"GETINFO", "250 OK\r\n"},
		{"GETCONF lOG", "250-Log=a\r\n250 Log=b\r\n"},
		{"GETCONF log l", no},
		{"GETCONF ORPort", "250 ORPort=1\r\n"},
		{"USEFEATURE verbose_names", "250 OK\r\n"},
		{"USEFEATURE EXTENDED_EVENTS", no},
		{"SIGNAL newnym", "250 OK\r\n"},
		{"SIGNAL newnym HALT", no},
		{"SIGNAL RELOAD", no}, // another name of HUP
		{"SIGNAL hup", "250 OK\r\n"},
		{"SIGNAL", no},
	} {
		c.do(x[0], x[1])
	}
	now.Store(rulesOf(t, "GETINFO version\n"))
	c.do("GETINFO many", no)
	c.do("GETCONF Log", no)
	if got := strings.Join(r.engine.told(), ";"); got != "signal NEWNYM" {
		t.Errorf("done: %s", got)
	}
}

// TestRulesOfOptions: names in any case, values as they are after their quotes are read; all or nothing.
func TestRulesOfOptions(t *testing.T) {
	r, _, _ := listed(t, "SETCONF DisableNetwork=0\nSETCONF Bridge=\"obfs4 *\"\nSETCONF UseBridges\nSETCONF Log=* ignore\nRESETCONF UseBridges\n")
	c := r.known()
	for _, x := range [][3]string{
		{"SETCONF disablenetwork=0", "250 OK\r\n", "set false[{disablenetwork 0 true}]"},
		{`SETCONF disablenetwork="\x30"`, "250 OK\r\n", "set false[{disablenetwork 0 true}]"},
		{"SETCONF DisableNetwork=1", no, ""},
		{"SETCONF DisableNetwork", no, ""},
		{`SETCONF DisableNetwork="0" ControlPort=9`, no, ""},
		{`SETCONF DisableNetwork="0 ControlPort=9`, no, ""},
		{`SETCONF DisableNetwork=0\ ControlPort=9`, no, ""},
		{`SETCONF DisableNetwork="0\n" Log=x`, no, ""},
		{`SETCONF Bridge="obfs4 1.2.3.4:5\nControlPort 9"`, "250 OK\r\n", "set false[{Bridge obfs4 1.2.3.4:5\nControlPort 9 true}]"},
		{`SETCONF Bridge="snowflake 1.2.3.4:5"`, no, ""},
		{"SETCONF UseBridges", "250 OK\r\n", "set false[{UseBridges  false}]"},
		{"SETCONF UseBridges=1", no, ""},
		{"SETCONF Log=x", "250 OK\r\n", ""},
		{"SETCONF Log", no, ""},
		{"SETCONF Log=x DisableNetwork=0", "250 OK\r\n", "set false[{DisableNetwork 0 true}]"},
		{"RESETCONF UseBridges", "250 OK\r\n", "set true[{UseBridges  false}]"},
		{"RESETCONF DisableNetwork=0", no, ""},
	} {
		r.engine.forgetDone()
		c.do(x[0], x[1])
		if got := strings.Join(r.engine.told(), ";"); got != x[2] {
			t.Errorf("%s: %q, want %q", x[0], got, x[2])
		}
	}
}

// TestRulesOfServices: ports, targets, keys and flags, and what is put in their place.
func TestRulesOfServices(t *testing.T) {
	key := "ED25519-V3:" + strings.Repeat("A", 86)
	client := strings.Repeat("a", 52)
	for _, x := range []struct{ rule, ask, want string }{
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600", "NEW:BEST Port=80,127.0.0.1:17600"},
		{"key=new port=80 target=127.0.0.1:17600-17650", "new:best port=80,localhost:17650", "new:best Port=80,127.0.0.1:17650"},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,[::ffff:127.0.0.1]:17650", "NEW:BEST Port=80,127.0.0.1:17650"},
		{"key=new port=80 target=127.0.0.1:17600-17650", `NEW:BEST Port="80,17600"`, "NEW:BEST Port=80,127.0.0.1:17600"},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17651", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17599", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,127.0.0.2:17600", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 Port=22,22", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 PORT=80,22", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", `NEW:BEST Port=80,17600 Port="80\,22"`, ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,unix:/run/x", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 Flags=Detach", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 MaxStreams=1", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 ClientAuthV3=" + client, ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", key + " Port=80,17600", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "", ""},
		{"key=new port=80 target=127.0.0.1:17600-17650", "NEW:BEST Port=80,17600 x", ""},
		{"port=80 target=127.0.0.1:17600-17650", key + " Port=80,17600", ""},
		{"key=any port=80 target=127.0.0.1:*", key + " Port=80", key + " Port=80,127.0.0.1:80"},
		{"key=any port=80,443 target=127.0.0.1:1", key + " Port=443,1 Port=80,1", key + " Port=443,127.0.0.1:1 Port=80,127.0.0.1:1"},
		{"port=80 target=127.0.0.1:* host=10.0.0.2", "NEW:BEST Port=80,22", "NEW:BEST Port=80,10.0.0.2:22"},
		{"port=80 target=127.0.0.1:* host=10.0.0.2", "NEW:BEST Port=80,10.0.0.2:22", ""},
		{"port=80 target=[::1]:22 host=fd00::1", "NEW:BEST Port=80,[::1]:22", "NEW:BEST Port=80,[fd00::1]:22"},
		{"port=* target=unix:/run/x/*", "NEW:BEST Port=1,unix:/run/x/y", "NEW:BEST Port=1,unix:/run/x/y"},
		{"port=* target=unix:/run/x/*", "NEW:BEST Port=1,unix:/run/x/../y", ""},
		{"port=* target=unix:/run/x/*", "NEW:BEST Port=1,unix:/run/xy", ""},
		{"port=* target=unix:/run/x/*", `NEW:BEST Port="1,unix:\"/run/x/y z\""`, ""},
		{"port=* target=unix:/run/x/y", "NEW:BEST Port=1,unix:/run/x/yz", ""},
		{"port=* target=127.0.0.1:1 flags=V3Auth", "NEW:BEST Port=1,1 Flags=v3auth ClientAuthV3=" + client, "NEW:BEST Port=1,127.0.0.1:1 ClientAuthV3=" + client + " Flags=v3auth"},
		{"port=* target=127.0.0.1:1 flags=V3Auth", `NEW:BEST Port=1,1 Flags=V3Auth ClientAuthV3="a Flags=Detach"`, ""},
		{"port=* target=127.0.0.1:1 flags=V3Auth", "NEW:BEST Port=1,1 Flags=V3Auth,Detach", ""},
		{"port=* target=127.0.0.1:1 flags=V3Auth", "NEW:BEST Port=1,1 Flags=V3Auth Flags=Detach", ""},
		{"port=* target=127.0.0.1:1 flags=V3Auth", "NEW:BEST Port=1,1 Flags=", ""},
		{"port=* target=127.0.0.1:1 force-flags=DiscardPK flags=DiscardPK", "NEW:BEST Port=1,1", "NEW:BEST Port=1,127.0.0.1:1 Flags=DiscardPK"},
		{"port=* target=127.0.0.1:1 force-flags=DiscardPK flags=DiscardPK", "NEW:BEST Port=1,1 Flags=discardpk", "NEW:BEST Port=1,127.0.0.1:1 Flags=discardpk"},
		{"port=* target=127.0.0.1:1 with=MaxStreams", "NEW:BEST Port=1,1 MaxStreams=5", "NEW:BEST Port=1,127.0.0.1:1 MaxStreams=5"},
		{"port=* target=127.0.0.1:1 with=MaxStreams", "NEW:BEST Port=1,1 PoWDefensesEnabled=1", ""},
	} {
		r := rulesOf(t, "ADD_ONION "+x.rule)
		got, ok := r.by["ADD_ONION"][0].onion.check(x.ask)
		if ok != (x.want != "") || ok && got != x.want {
			t.Errorf("%s: %s: %q %v, want %q", x.rule, x.ask, got, ok, x.want)
		}
	}
}

// TestRulesOfOwnServices: a controller ends its own services only, has no more than its list says, and sees no others.
func TestRulesOfOwnServices(t *testing.T) {
	r, _, _ := listed(t, "ADD_ONION port=* target=127.0.0.1:1 max=1\nDEL_ONION\nHSFETCH *\nSETEVENTS HS_DESC own hide-relays\nSETEVENTS HS_DESC_CONTENT own\n")
	mine, other, asked := addressOf(t, 1), addressOf(t, 2), addressOf(t, 3)
	r.engine.give(mine)
	c := r.known()
	c.do("SETEVENTS HS_DESC HS_DESC_CONTENT", "250 OK\r\n")
	c.do("ADD_ONION NEW:BEST Port=1", "250-ServiceID="+mine+"\r\n250-PrivateKey=ED25519-V3:secret\r\n250 OK\r\n")
	c.do("ADD_ONION NEW:BEST Port=1", no)
	c.do("DEL_ONION "+other, no)
	c.do("HSFETCH "+asked+" SERVER="+aServer, no)
	c.do("HSFETCH "+asked, "250 OK\r\n")
	for _, a := range []string{other, mine, asked} {
		for _, e := range []string{"CREATED " + a + " UNKNOWN UNKNOWN abc", "UPLOAD " + a + " UNKNOWN $" + aServer + "~n abc HSDIR_INDEX=DE", "FAILED " + a + " NO_AUTH $" + aServer + "~n abc REASON=NOT_FOUND", "UPLOADED " + a + " UNKNOWN $" + aServer + "~n"} {
			if err := r.srv.Event("HS_DESC", e); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.srv.EventData("HS_DESC_CONTENT", a+" id $"+aServer+"~n", []byte("text\n")); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []string{mine, asked} {
		c.want("650 HS_DESC CREATED " + a + " UNKNOWN UNKNOWN UNKNOWN\r\n650 HS_DESC UPLOAD " + a + " UNKNOWN UNKNOWN UNKNOWN\r\n650 HS_DESC FAILED " + a + " NO_AUTH UNKNOWN UNKNOWN REASON=NOT_FOUND\r\n650 HS_DESC UPLOADED " + a + " UNKNOWN UNKNOWN\r\n")
		c.want("650+HS_DESC_CONTENT " + a + " id $" + aServer + "~n\r\ntext\r\n.\r\n650 OK\r\n")
	}
	c.do("DEL_ONION "+mine, "250 OK\r\n")
	c.do("DEL_ONION "+mine, no)
}

// TestRulesOfEvents: silent events are asked for in vain, and others in the same list do not come along.
func TestRulesOfEvents(t *testing.T) {
	r, _, now := listed(t, "SETEVENTS BW\nSETEVENTS SIGNAL silent\nSETEVENTS NOTICE\n")
	c := r.known()
	c.do("SETEVENTS BW CIRC", no)
	c.do("SETEVENTS EXTENDED BW", no)
	c.do("SETEVENTS bw signal Notice", "250 OK\r\n")
	if r.srv.Wanted("SIGNAL") || !r.srv.Wanted("BW") {
		t.Error("the wrong events are made")
	}
	tell := func(name, text string) {
		t.Helper()
		if err := r.srv.Event(name, text); err != nil {
			t.Fatal(err)
		}
	}
	tell("SIGNAL", "HUP")
	tell("BW", "1 2")
	c.want("650 BW 1 2\r\n")
	now.Store(rulesOf(t, "SETEVENTS NOTICE\n"))
	tell("BW", "3 4")
	tell("NOTICE", "x")
	c.want("650 NOTICE x\r\n")
}

// TestRulesOfOwnStreams: a controller sees and ends streams of its ports only, and learns no path.
func TestRulesOfOwnStreams(t *testing.T) {
	r, w, _ := listed(t, "streams 127.0.0.1:9150\nstreams unix:/run/s\nSETEVENTS STREAM own\nSETEVENTS CIRC own\nGETINFO stream-status own\nGETINFO circuit-status own\nCLOSESTREAM own\nATTACHSTREAM\n")
	c := r.known()
	c.do("SETEVENTS STREAM CIRC", "250 OK\r\n")
	for _, e := range [][3]string{
		{"STREAM", "9 NEW 0 secret:80", "127.0.0.1:9050"}, {"STREAM", "9 SENTCONNECT 4 secret:80", ""},
		{"CIRC", "3 BUILT $AA~n,$BB~m PURPOSE=GENERAL", ""}, {"CIRC", "4 CLOSED $AA~n", ""},
		{"STREAM", "7 NEW 0 a:80", "127.0.0.1:9150"}, {"STREAM", "7 SENTCONNECT 3 a:80", "/run/s"},
		{"CIRC", "3 EXTENDED $AA~n", ""}, {"CIRC", "3 CLOSED $AA~n REASON=FINISHED", ""}, {"CIRC", "3 CLOSED $AA~n REASON=FINISHED", ""},
		{"STREAM", "7 CLOSED 0 a:80", "127.0.0.1:9150"},
	} {
		if err := r.srv.EventAt(e[0], e[1], e[2]); err != nil {
			t.Fatal(err)
		}
	}
	c.want("650 STREAM 7 NEW 0 a:80\r\n650 STREAM 7 SENTCONNECT 3 a:80\r\n650 CIRC 3 CLOSED\r\n650 STREAM 7 CLOSED 0 a:80\r\n")
	c.do("GETINFO stream-status circuit-status", "250+stream-status=\r\n7 SUCCEEDED 3 a:80\r\n.\r\n250+circuit-status=\r\n3 BUILT $AA~n\r\n.\r\n250 OK\r\n")
	c.do("CLOSESTREAM 9 1", no)
	c.do("CLOSESTREAM \"7\" 1", no)
	c.do("CLOSESTREAM 07 1", no)
	c.do("CLOSESTREAM 7 1", "250 OK\r\n")
	c.do("ATTACHSTREAM 9 3", "250 OK\r\n")
	if got := w.take(); got != "end 7 1; attach 9 3 0" {
		t.Error(got)
	}
}

// TestOwnedBound: what a session remembers of streams has a bound.
func TestOwnedBound(t *testing.T) {
	var list []string
	for i := range 2 * maxOwned {
		list = remember(list, fmt.Sprint(i))
		list = remember(list, fmt.Sprint(i))
	}
	if len(list) != maxOwned || list[0] != fmt.Sprint(maxOwned) {
		t.Error(len(list), list[0])
	}
}

// TestBadRules: a file with a mistake is refused, with its name and the line.
func TestBadRules(t *testing.T) {
	for _, x := range []string{
		"GETINFO", "BLARG x", "getinfo version", "GETINFO version=1", "GETINFO version blarg", "GETINFO a*b", "GETINFO version answer", "GETINFO v* answer=x",
		`GETINFO version answer="a\nb"`, "GETINFO version own", "GETINFO stream* own", `GETINFO version answer="x`, "SETEVENTS BLARG", "SETEVENTS B*", "SETEVENTS BW own",
		"SETEVENTS BW hide-relays", "SIGNAL BLARG", "SIGNAL NEWNYM own", "QUIT", "AUTHENTICATE", "streams", "streams a b", "LOADCONF x", "DROPGUARDS ignore",
		"ADD_ONION", "ADD_ONION port=80", "ADD_ONION target=127.0.0.1:1", "ADD_ONION port=0 target=127.0.0.1:1", "ADD_ONION port=080 target=127.0.0.1:1",
		"ADD_ONION port=80 target=example.com:1", "ADD_ONION port=80 target=127.0.0.1:5-4", "ADD_ONION port=80 target=127.0.0.1:0", "ADD_ONION port=80 target=127.0.0.1",
		"ADD_ONION port=80 target=unix:x", "ADD_ONION port=80 target=unix:/a/../b", "ADD_ONION port=80 target=127.0.0.1:1 host=example.com", "ADD_ONION port=80 target=127.0.0.1:1 key=old",
		"ADD_ONION port=80 target=127.0.0.1:1 flags=NonAnonymous", "ADD_ONION port=80 target=127.0.0.1:1 max=0", "ADD_ONION port=80 target=127.0.0.1:1 max=257",
		"ADD_ONION port=80 target=127.0.0.1:1 max=1 flags=Detach", "ADD_ONION port=80 target=127.0.0.1:1 blarg=1", "ADD_ONION port=80 target=127.0.0.1:1 with=Port",
	} {
		_, err := ParseRules("/etc/list", []byte("# comment\n\nGETINFO version\n"+x+"\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "/etc/list:4: ") {
			t.Errorf("%s: %v", x, err)
		}
	}
	for _, x := range []string{"SETEVENTS STREAM own", "CLOSESTREAM own", strings.Repeat("#", MaxRules+1)} {
		if _, err := ParseRules("/etc/list", []byte(x)); err == nil || !strings.HasPrefix(err.Error(), "/etc/list: ") {
			t.Errorf("%.20s: %v", x, err)
		}
	}
}

// TestShippedRules: what the examples are for works with them, and what they keep from programs does not.
func TestShippedRules(t *testing.T) {
	address, client := addressOf(t, 1), strings.Repeat("A", 52)
	hello := [][2]string{{"GETCONF __owningcontrollerprocess", "250 OK\r\n"}, {"SETEVENTS SIGNAL CONF_CHANGED STATUS_SERVER", "250 OK\r\n"}}
	for file, asks := range map[string][][2]string{
		"onionshare.allow": append(hello, [][2]string{
			{"GETINFO version", "250-version=1.2.3.4\r\n250 OK\r\n"},
			{"GETINFO status/bootstrap-phase", "250-status/bootstrap-phase=NOTICE BOOTSTRAP PROGRESS=100 TAG=done SUMMARY=\"Done\"\r\n250 OK\r\n"},
			{"SETEVENTS SIGNAL CONF_CHANGED STATUS_SERVER HS_DESC", "250 OK\r\n"},
			{"ADD_ONION NEW:ED25519-V3 Flags=V3Auth Port=80,17612 ClientAuthV3=" + client, "250-ServiceID=" + address + "\r\n250-PrivateKey=ED25519-V3:secret\r\n250-ClientAuthV3=" + client + "\r\n250 OK\r\n"},
			{"DEL_ONION " + address, "250 OK\r\n"},
			{"ADD_ONION NEW:BEST Port=80,22", no}, {"ADD_ONION NEW:BEST Port=80,17600 Flags=Detach", no}, {"GETINFO address", no}, {"SIGNAL NEWNYM", no}, {"SETEVENTS STREAM", no},
		}...),
		"bisq.allow": append(hello, [][2]string{
			{"SETEVENTS CIRC ORCONN INFO NOTICE WARN ERR HS_DESC HS_DESC_CONTENT", "250 OK\r\n"},
			{"SETCONF DisableNetwork=1", "250 OK\r\n"},
			{"ADD_ONION NEW:BEST Port=9999,4711", "250-ServiceID=" + address + "\r\n250-PrivateKey=ED25519-V3:secret\r\n250 OK\r\n"},
			{"HSFETCH " + address, "250 OK\r\n"},
			{"ADD_ONION NEW:BEST Port=80,4711", no}, {"GETINFO circuit-status", no}, {"SETCONF DisableNetwork=1 SocksPort=0", no},
		}...),
		"whonix.allow": append(hello, [][2]string{
			{"SIGNAL NEWNYM", "250 OK\r\n"},
			{"GETINFO net/listeners/socks", "250-net/listeners/socks=\"127.0.0.1:9150\"\r\n250 OK\r\n"},
			{"GETINFO circuit-status", no}, {"SIGNAL HALT", no}, {"ADD_ONION NEW:BEST Port=80", no},
		}...),
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../../contrib/control", file))
			if err != nil {
				t.Fatal(err)
			}
			r, _, _ := listed(t, string(text))
			r.engine.give(address)
			c := r.known()
			for _, x := range asks {
				want := x[1]
				if x[0] == hello[0][0] {
					want = map[bool]string{true: "250 __OwningControllerProcess=\r\n", false: no}[file != "bisq.allow"]
				}
				c.do(x[0], want)
			}
			for _, told := range r.engine.told() {
				if strings.HasPrefix(told, "set") {
					t.Error(told)
				}
			}
		})
	}
}

// FuzzRules: a list never panics, and what it lets through is let through again as it was written anew.
func FuzzRules(f *testing.F) {
	for _, name := range []string{"onionshare.allow", "bisq.allow", "whonix.allow"} {
		text, err := os.ReadFile(filepath.Join("../../contrib/control", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "ADD_ONION", "NEW:BEST Port=80,17600 Flags=V3Auth ClientAuthV3=a")
		f.Add(string(text), "SETCONF", `DisableNetwork="\x30" Log="a\"b"`)
		f.Add(string(text), "GETINFO", "version  onions/current")
	}
	f.Add("SETCONF *=*\nADD_ONION port=* target=unix:/* flags=V3Auth key=any\nHSFETCH * servers", "SETCONF", `a="\001\377" b`)
	f.Fuzz(func(t *testing.T, list, name, args string) {
		r, err := ParseRules("f", []byte(list))
		if err != nil {
			return
		}
		one := &session{srv: New(Config{Steering: &wheel{}})}
		c := ctlwire.Command{Name: name, Args: args}
		if strings.ContainsAny(args, "\r\n") || r.check(one, &c) != allowed {
			return
		}
		again := c
		if got := r.check(one, &again); got != allowed || again.Args != c.Args {
			t.Errorf("%s %q became %q, and that %q (%d)", name, args, c.Args, again.Args, got)
		}
		if name == "SETCONF" {
			before, _ := ctlwire.Keywords(c.Args, ctlwire.ValueOptional|ctlwire.CString)
			for _, k := range before {
				if r.findOption(name, k) == nil {
					t.Errorf("%q sets %q", c.Args, k.Key)
				}
			}
		}
	})
}

// TestFetchedBound: what is no address is not remembered, however long it is.
func TestFetchedBound(t *testing.T) {
	r, err := ParseRules("list", []byte("HSFETCH *\n"))
	if err != nil {
		t.Fatal(err)
	}
	one, address := &session{}, addressOf(t, 1)
	for _, x := range []string{strings.Repeat("a", 1<<16), "x", "", address} {
		if v := r.check(one, &ctlwire.Command{Name: "HSFETCH", Args: x}); v != allowed {
			t.Errorf("%.9q: %v", x, v)
		}
	}
	if got := one.own.fetched; len(got) != 1 || got[0] != address {
		t.Errorf("%d are remembered", len(got))
	}
}
