package tord

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

var serviceID = regexp.MustCompile(`ServiceID=([a-z2-7]{56})`)

// id returns the address in a reply.
func id(t *testing.T, reply string) string {
	t.Helper()
	m := serviceID.FindStringSubmatch(reply)
	if m == nil {
		t.Fatal(reply)
	}
	return m[1]
}

// onionProgram starts a program without a network that answers, and returns it with a controller.
func onionProgram(t *testing.T, lines string) (*running, *controller) {
	t.Helper()
	r := start(t, deadNetwork+"SocksPort auto\nControlSocket DIR/s\n"+lines)
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	c := dial(t, "unix", r.dir+"/s")
	c.want("AUTHENTICATE", "250 OK")
	return r, c
}

// TestAddOnion: a service begins with its key, once, ends, and outlives the client that carries it.
func TestAddOnion(t *testing.T) {
	r, c := onionProgram(t, "")
	reply := c.ask("ADD_ONION NEW:BEST Port=80,unix:/nowhere Port=80 PoWDefensesEnabled=1")
	address := id(t, reply)
	_, key, _ := strings.Cut(reply, "PrivateKey=")
	key, _, _ = strings.Cut(key, "\n")
	c.want("ADD_ONION "+key+" Port=80", "550 Onion address collision")
	c.want("GETINFO onions/current", "250-onions/current="+address+"\n250 OK")
	c.want("GETINFO chive/onions", "250+chive/onions=\n"+address+" PUBLISHED=0 POINTS=0 MISSING=0 CLIENTS=0 CIRCUITS=0 STREAMS=0\n.\n250 OK")
	c.want("GETINFO hs/service/desc/id/"+address, "551 Not found in cache")
	c.want("GETINFO hs/service/desc/id/abc", "551 Invalid address")
	c.want("GETINFO hs/client/desc/id/"+address, "551 Not found in cache")
	c.want("DEL_ONION "+address, "250 OK")
	c.want("DEL_ONION "+address, "552 Unknown Onion Service id")
	if again := id(t, c.ask("ADD_ONION "+key+" Port=80 Flags=Detach")); again != address {
		t.Errorf("%s has become %s", address, again)
	}
	for _, on := range []string{"1", "0"} {
		c.want("SETCONF DisableNetwork="+on, "250 OK")
		if runs := strings.Contains(c.ask("GETINFO chive/onions"), address); runs != (on == "0") {
			t.Errorf("DisableNetwork=%s: the service runs: %v", on, runs)
		}
		c.want("GETINFO onions/detached", "250-onions/detached="+address+"\n250 OK")
		c.want("ADD_ONION "+key+" Port=80", "550 Onion address collision")
		other := id(t, c.ask("ADD_ONION NEW:ED25519-V3 Port=80 Flags=DiscardPK"))
		c.want("DEL_ONION "+other, "250 OK")
	}
	c.want("DEL_ONION "+address, "250 OK")
	c.want("ADD_ONION NEW:BEST Port=80 PoWDefensesEnabled=1 PoWQueueRate=10 PoWQueueBurst=5", "512 Invalid PoWQueueBurst")
	if reply := c.ask("ADD_ONION NEW:BEST Port=80 Flags=V3Auth" + strings.Repeat(" ClientAuthV3="+strings.Repeat("a", 51)+"q", 500)); reply != "512 Invalid client authorization" {
		t.Errorf("%.100q", reply)
	}
	c.ask("ADD_ONION NEW:BEST Port=80") // which ends with the program
	r.stop()
}

// stop ends the program, as a user does.
func (r *running) stop() {
	r.t.Helper()
	r.signals <- os.Interrupt
	if code := <-r.code; code != exitOK {
		r.t.Errorf("the program ended with %d:\n%s", code, r.out)
	}
}

// TestOnionKeysOfClients: keys are used at once, permanent ones are in files, and one service has one key.
func TestOnionKeysOfClients(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, c := onionProgram(t, "ClientOnionAuthDir "+dir+"\n")
	a := id(t, c.ask("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK"))
	b := id(t, c.ask("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK"))
	secret := func() string {
		k := make([]byte, 32)
		rand.Read(k) // it never fails
		return "x25519:" + base64.StdEncoding.EncodeToString(k)
	}
	one, two := secret(), secret()
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	c.want("ONION_CLIENT_AUTH_ADD "+a+" "+one+" Flags=Permanent", "250 OK")
	c.want("ONION_CLIENT_AUTH_ADD "+b+" "+one+" ClientName=bob", "250 OK")
	lines := []string{"250-CLIENT " + a + " " + one + " Flags=Permanent", "250-CLIENT " + b + " " + one + " ClientName=bob"}
	slices.Sort(lines)
	all := "250-ONION_CLIENT_AUTH_VIEW\n" + strings.Join(lines, "\n") + "\n250 OK"
	c.want("ONION_CLIENT_AUTH_VIEW", all)
	for _, on := range []string{"1", "0"} { // another client has the same
		c.want("SETCONF DisableNetwork="+on, "250 OK")
		c.want("ONION_CLIENT_AUTH_VIEW", all)
	}
	file := filepath.Join(dir, a+".auth_private")
	text, err := os.ReadFile(file)
	if st, serr := os.Stat(file); err != nil || serr != nil || st.Mode().Perm() != 0o600 || !strings.HasPrefix(string(text), a+":descriptor:x25519:") {
		t.Errorf("%q %v %v %v", text, st, err, serr)
	}
	if err := os.Rename(file, filepath.Join(dir, "other.auth_private")); err != nil {
		t.Fatal(err)
	}
	c.want("ONION_CLIENT_AUTH_ADD "+a+" "+two, `553 Unable to store creds for "`+a+`"`)
	c.want("ONION_CLIENT_AUTH_ADD "+a+" "+two+" Flags=Permanent", "251 Client for onion existed and replaced")
	if n := files(); n != 1 {
		t.Errorf("%d files", n)
	}
	c.want("ONION_CLIENT_AUTH_ADD "+b+" "+two, "251 Client for onion existed and replaced")
	c.want("ONION_CLIENT_AUTH_ADD "+b+" "+one+" Flags=Permanent", "251 Client for onion existed and replaced")
	c.want("ONION_CLIENT_AUTH_VIEW "+b, "250-ONION_CLIENT_AUTH_VIEW "+b+"\n250-CLIENT "+b+" "+one+" Flags=Permanent\n250 OK")
	for _, address := range []string{a, b} {
		c.want("ONION_CLIENT_AUTH_REMOVE "+address, "250 OK")
		c.want("ONION_CLIENT_AUTH_REMOVE "+address, `251 No credentials for "`+address+`"`)
	}
	if n := files(); n != 0 {
		t.Errorf("%d files", n)
	}
	c.want("ONION_CLIENT_AUTH_VIEW", "250-ONION_CLIENT_AUTH_VIEW\n250 OK")
	c.want("RESETCONF ClientOnionAuthDir", "250 OK")
	c.want("ONION_CLIENT_AUTH_ADD "+a+" "+one+" Flags=Permanent", `553 Unable to store creds for "`+a+`"`)
	r.stop()
}

// TestHiddenServiceDir: services of the configuration come and go, with keys in C tor's files, and are shown as C tor
// shows them.
func TestHiddenServiceDir(t *testing.T) {
	r, c := onionProgram(t, "HiddenServiceDir DIR/one\nHiddenServicePort 80 127.0.0.1:8080\nHiddenServiceVersion 3\n")
	hostname := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(r.dir, name, "hostname"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(string(b), ".onion\n")
	}
	one := hostname("one")
	c.want("GETINFO chive/onions", "250+chive/onions=\n"+one+" PUBLISHED=0 POINTS=0 MISSING=0 CLIENTS=0 CIRCUITS=0 STREAMS=0\n.\n250 OK")
	secret, err := os.ReadFile(filepath.Join(r.dir, "one", "hs_ed25519_secret_key"))
	if err != nil {
		t.Fatal(err)
	}
	key := "ED25519-V3:" + base64.StdEncoding.EncodeToString(secret[len(secret)-64:])
	c.want("ADD_ONION "+key+" Port=80", "550 Onion address collision")
	c.want("GETINFO onions/current onions/detached", "250-onions/current=\n250-onions/detached=\n250 OK")
	c.want("GETCONF HiddenServiceOptions", "250-HiddenServiceDir="+r.dir+"/one\n250-HiddenServicePort=80 127.0.0.1:8080\n250 HiddenServiceVersion=3")
	c.want("GETCONF HiddenServiceDir", "250 HiddenServiceDir")
	if names := c.ask("GETINFO config/names"); strings.Count(names, "\nHiddenServiceOptions Virtual\nHiddenServicePort Dependent\n") != 1 {
		t.Error("config/names does not have the group")
	}
	c.want(`SETCONF HiddenServiceDir="`+r.dir+`/one" HiddenServicePort="80" HiddenServiceDir="`+r.dir+`/two" HiddenServicePort="81 9000" HiddenServiceMaxStreams=5`, "250 OK")
	if two := hostname("two"); two == one || hostname("one") != one {
		t.Error(one, two)
	}
	c.want("SETCONF DisableNetwork=1", "250 OK")
	if reply := c.ask(`SETCONF HiddenServicePort=80`); !strings.HasPrefix(reply, "513 ") {
		t.Error(reply)
	}
	if reply := c.ask(`SETCONF HiddenServiceDir="` + r.dir + `/none"`); !strings.HasPrefix(reply, "513 ") {
		t.Error(reply)
	}
	c.want(`SETCONF HiddenServiceDir="`+r.dir+`/three" HiddenServicePort=80`, "250 OK")
	hostname("three") // programs read it at once
	c.want("SAVECONF", "250 OK")
	saved, err := os.ReadFile(filepath.Join(r.dir, "torrc"))
	if err != nil || !strings.Contains(string(saved), "HiddenServiceDir "+r.dir+"/three\nHiddenServicePort 80\n") {
		t.Errorf("%s %v", saved, err)
	}
	c.want("RESETCONF HiddenServiceDir", "250 OK")
	c.want("GETCONF HiddenServiceOptions", "250 HiddenServiceOptions")
	c.want("SETCONF DisableNetwork=0", "250 OK")
	if again := id(t, c.ask("ADD_ONION "+key+" Port=80")); again != one {
		t.Error(again, one)
	}
	r.stop()
}

// TestOnionEventText: the texts of events are C tor's, field by field.
func TestOnionEventText(t *testing.T) {
	service, blinded := ident.Ed25519ID{1}, ident.Ed25519ID{2}
	name, key := onionName(service), keyName(blinded)
	for _, x := range []struct {
		e    netdir.HSEvent
		want string
	}{
		{netdir.HSEvent{Action: netdir.HSCreated}, "CREATED " + name + " UNKNOWN UNKNOWN " + key},
		{netdir.HSEvent{Action: netdir.HSUpload, Index: [32]byte{0xab}}, "UPLOAD " + name + " UNKNOWN UNKNOWN " + key + " HSDIR_INDEX=AB" + strings.Repeat("00", 31)},
		{netdir.HSEvent{Action: netdir.HSUploaded}, "UPLOADED " + name + " UNKNOWN UNKNOWN"},
		{netdir.HSEvent{Action: netdir.HSRequested}, "REQUESTED " + name + " NO_AUTH UNKNOWN " + key + " HSDIR_INDEX=" + strings.Repeat("00", 32)},
		{netdir.HSEvent{Action: netdir.HSReceived}, "RECEIVED " + name + " NO_AUTH UNKNOWN " + key},
		{netdir.HSEvent{Action: netdir.HSFailed, Reason: "UPLOAD_REJECTED"}, "FAILED " + name + " UNKNOWN UNKNOWN REASON=UPLOAD_REJECTED"},
		{netdir.HSEvent{Action: netdir.HSFailed, Fetch: true, Reason: "NOT_FOUND"}, "FAILED " + name + " NO_AUTH UNKNOWN " + key + " REASON=NOT_FOUND"},
	} {
		x.e.Service, x.e.Blinded = service, blinded
		if got := onionEvent(&x.e); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// TestOnionOffline: without a network, what needs one says so.
func TestOnionOffline(t *testing.T) {
	r, c := onionProgram(t, "DisableNetwork 1\n")
	address := id(t, c.ask("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK"))
	c.want("HSFETCH "+address, "551 there is no network: DisableNetwork is 1")
	c.want("+HSPOST HSADDRESS="+address+"\r\nx\r\n.", "554 Invalid descriptor")
	c.want("HSFETCH "+address+" SERVER="+strings.Repeat("A", 40), `552 Server "`+strings.Repeat("A", 40)+`" not found`)
	c.want("GETINFO hs/service/desc/id/"+address, "551 Not found in cache")
	r.stop()
}

// TestMaxOnionKeys: there is a bounded number of keys in no file. One that is there may be replaced.
func TestMaxOnionKeys(t *testing.T) {
	r, c := onionProgram(t, "DisableNetwork 1\n")
	key := " x25519:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	var last string
	for i, added := 0, 0; added <= maxOnionKeys; i++ {
		address := onionName(ident.Ed25519ID{byte(i), byte(i >> 8)})
		if !control.IsAddress(address) {
			continue // it is no point of the curve
		}
		if added++; added > maxOnionKeys {
			c.want("ONION_CLIENT_AUTH_ADD "+address+key, `553 Unable to store creds for "`+address+`"`)
			c.want("ONION_CLIENT_AUTH_ADD "+last+key, "251 Client for onion existed and replaced")
			break
		}
		c.want("ONION_CLIENT_AUTH_ADD "+address+key, "250 OK")
		last = address
	}
	r.stop()
}

// TestSingleOnions: the options that give up the anonymity of services go together and without a client's ports, and
// ADD_ONION must say the same.
func TestSingleOnions(t *testing.T) {
	const hop, open, off = "HiddenServiceSingleHopMode 1\n", "HiddenServiceNonAnonymousMode 1\n", "SocksPort 0\n"
	for lines, want := range map[string]string{
		hop:                                 "It must be used with HiddenServiceNonAnonymousMode set to 1.",
		open:                                "It must be used with HiddenServiceSingleHopMode set to 1.",
		hop + open:                          "is incompatible with using Tor as an anonymous client.",
		hop + open + "SocksPort auto\n":     "is incompatible with using Tor as an anonymous client.",
		hop + open + off + "DNSPort 5353\n": "is incompatible with using Tor as an anonymous client.",
		hop + open + off:                    "",
		hop + open + off + "HiddenServiceDir /nowhere/s\nHiddenServicePort 80\n": "",
	} {
		conf := conf{}
		for l := range strings.Lines(lines) {
			key, value, _ := strings.Cut(strings.TrimSpace(l), " ")
			if err := conf.put(find(key), value); err != nil {
				t.Fatal(err)
			}
		}
		p, err := planOf(conf)
		if want == "" && (err != nil || !p.findable) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", lines, err)
		}
	}
	r := start(t, deadNetwork+hop+open+off+"ControlSocket DIR/s\nHiddenServiceDir DIR/service\nHiddenServicePort 80\n")
	r.out.wait(t, `Opened Control listener connection \(ready\) on /`)
	c := dial(t, "unix", r.dir+"/s")
	c.want("AUTHENTICATE", "250 OK")
	c.want("ADD_ONION NEW:BEST Port=80", "512 Tor is in non-anonymous hidden service mode")
	address := id(t, c.ask("ADD_ONION NEW:BEST Port=80 Flags=NonAnonymous"))
	own, err := os.ReadFile(filepath.Join(r.dir, "service", "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{address, strings.TrimSuffix(strings.TrimSpace(string(own)), ".onion")} {
		if runs := c.ask("GETINFO chive/onions"); !strings.Contains(runs, a) {
			t.Errorf("%s does not run: %s", a, runs)
		}
	}
	c.want("SETCONF HiddenServiceSingleHopMode=0 HiddenServiceNonAnonymousMode=0", "553 Transition not allowed: While Tor is running, changing HiddenServiceNonAnonymousMode is not allowed")
	c.want("DEL_ONION "+address, "250 OK")

	_, c = onionProgram(t, "")
	c.want("ADD_ONION NEW:BEST Port=80 Flags=NonAnonymous", "512 Tor is in anonymous hidden service mode")
}
