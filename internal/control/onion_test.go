package control

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// addressOf returns a valid address, another one for each n.
func addressOf(t *testing.T, n int) string {
	t.Helper()
	var id ident.Ed25519ID
	for i := range 256 {
		id = ident.Ed25519ID{byte(n), byte(n >> 8), byte(i)}
		if a := strings.TrimSuffix(hscrypto.Address(id), ".onion"); IsAddress(a) {
			return a
		}
	}
	t.Fatal("no address")
	return ""
}

// give says which addresses services get, in turn.
func (f *fake) give(addresses ...string) chan string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addresses, f.deleted = addresses, make(chan string, len(addresses)+8)
	return f.deleted
}

// told returns what it was told.
func (f *fake) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *fake) AddOnion(o Onion) (address, key string, err error) {
	f.note(fmt.Sprintf("add %d %v %d %v %v %d %d %v", len(o.Key), o.Ports, o.MaxStreams, o.CloseCircuit, o.PoW, o.Rate, o.Burst, o.Clients))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.addresses == nil {
		return "", "", ctlwire.Errorf(550, "Onion address collision")
	}
	address = f.addresses[0]
	f.addresses = append(f.addresses[1:], address)
	return address, "secret", nil
}

func (f *fake) Findable() bool { return f.findable.Load() }

func (f *fake) DelOnion(address string) error {
	f.note("del " + address)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted <- address
	return nil
}

func (f *fake) AddOnionKey(k OnionKey) (bool, error) {
	if k.Name == "bad" {
		return false, ctlwire.Errorf(ctlwire.BadConfig, "Unable to store creds for %q", k.Address)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := slices.ContainsFunc(f.keys, func(o OnionKey) bool { return o.Address == k.Address })
	f.keys = append(slices.DeleteFunc(f.keys, func(o OnionKey) bool { return o.Address == k.Address }), k)
	return was, nil
}

func (f *fake) RemoveOnionKey(address string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.keys)
	f.keys = slices.DeleteFunc(f.keys, func(o OnionKey) bool { return o.Address == address })
	return len(f.keys) < n, nil
}

func (f *fake) OnionKeys() []OnionKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys)
}

func (f *fake) HasDirectory(id ident.RSAID) bool { return id == ident.RSAID{0xaa} }

func (f *fake) FetchDescriptor(address string, from []ident.RSAID) error {
	f.note(fmt.Sprintf("fetch %s %d", address, len(from)))
	return nil
}

func (f *fake) PostDescriptor(address string, text []byte, to []ident.RSAID) error {
	f.note(fmt.Sprintf("post %s %q %d", address, text, len(to)))
	if string(text) == "bad\n" {
		return errors.New("it is bad")
	}
	return nil
}

// do sends a command and reads the reply.
func (c *client) do(ask, want string) {
	c.t.Helper()
	c.send(ask + "\r\n")
	c.want(want)
}

const aServer = "AA00000000000000000000000000000000000000"

// TestAddOnionAnswers: C tor's answer to each way to ask for a service.
func TestAddOnionAnswers(t *testing.T) {
	r := newRig(t, Auth{})
	address := addressOf(t, 1)
	r.engine.give(address, address, address)
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	key := base64.StdEncoding.EncodeToString(make([]byte, 64))
	client := strings.Repeat("a", 52)
	for _, one := range [][2]string{
		{"ADD_ONION", "512 Bad arguments to ADD_ONION: Need at least 1 argument(s)\r\n"},
		{"ADD_ONION NEW:BEST", "512 Missing 'Port' argument\r\n"},
		{"ADD_ONION NEW:BEST Port=80 Bla=1", "512 Bad arguments to ADD_ONION: Unrecognized keyword argument \"Bla\"\r\n"},
		{"ADD_ONION NEW:BEST Port=80 bla", "512 Bad arguments to ADD_ONION: Cannot parse keyword argument(s)\r\n"},
		{"ADD_ONION NEW:BEST Port=abc", "512 Invalid VIRTPORT/TARGET\r\n"},
		{"ADD_ONION NEW:BEST Port=0", "512 Invalid VIRTPORT/TARGET\r\n"},
		{"ADD_ONION NEW:BEST Port=80,example.com:80", "512 Invalid VIRTPORT/TARGET\r\n"},
		{"ADD_ONION NEW:BEST Port=80,unix:relative", "512 Invalid VIRTPORT/TARGET\r\n"},
		{"ADD_ONION NEW:BEST Port=80 MaxStreams=65536", "512 Invalid MaxStreams\r\n"},
		{"ADD_ONION NEW:BEST Port=80 PoWDefensesEnabled=2", "512 Invalid PoWDefensesEnabled\r\n"},
		{"ADD_ONION NEW:BEST Port=80 PoWQueueRate=0", "512 Invalid PoWQueueRate\r\n"},
		{"ADD_ONION NEW:BEST Port=80 PoWQueueBurst=-1", "512 Invalid PoWQueueBurst\r\n"},
		{"ADD_ONION NEW:BEST Port=80 Flags=", "512 Invalid 'Flags' argument\r\n"},
		{"ADD_ONION NEW:BEST Port=80 Flags=Bad", "512 Invalid 'Flags' argument: \"Bad\"\r\n"},
		{"ADD_ONION NEW:BEST Port=80 Flags=NonAnonymous", "512 Tor is in anonymous hidden service mode\r\n"},
		{"ADD_ONION NEW:BEST Port=80 Flags=V3Auth", "512 No auth clients specified\r\n"},
		{"ADD_ONION NEW:BEST Port=80 ClientAuthV3=" + client, "512 No auth type specified\r\n"},
		{"ADD_ONION NEW:BEST Port=80 ClientAuthV3=abc", "512 Cannot decode v3 client auth key\r\n"},
		{"ADD_ONION NEW:BEST Port=80 ClientAuth=bob", "512 Invalid client authorization\r\n"},
		{"ADD_ONION NEW:RSA1024 Port=80", "513 Invalid key type\r\n"},
		{"ADD_ONION RSA1024:AAAA Port=80", "513 Invalid key type\r\n"},
		{"ADD_ONION NEW Port=80", "512 Invalid key type/blob\r\n"},
		{"ADD_ONION NEW:BEST:x Port=80", "512 Invalid key type/blob\r\n"},
		{"ADD_ONION ED25519-V3:AAAA Port=80", "512 Failed to decode ED25519-V3 key\r\n"},
		{"DEL_ONION", "512 Bad arguments to DEL_ONION: Need at least 1 argument(s)\r\n"},
		{"DEL_ONION abc", "512 Malformed Onion Service id\r\n"},
		{"DEL_ONION " + address + ".onion", "512 Malformed Onion Service id\r\n"},
		{"DEL_ONION " + address, "552 Unknown Onion Service id\r\n"},
	} {
		c.do(one[0], one[1])
	}
	if told := r.engine.told(); len(told) > 0 {
		t.Fatal(told)
	}
	c.do("ADD_ONION NEW:BEST port=80 ", "250-ServiceID="+address+"\r\n250-PrivateKey=ED25519-V3:secret\r\n250 OK\r\n")
	c.do("GETINFO onions/current onions/detached", "250-onions/current="+address+"\r\n250-onions/detached=\r\n250 OK\r\n")
	c.do("DEL_ONION "+address, "250 OK\r\n")
	c.do("GETINFO onions/current", "250-onions/current=\r\n250 OK\r\n")
	c.do("ADD_ONION new:ed25519-v3 Flags=DiscardPK,V3Auth,MaxStreamsCloseCircuit MaxStreams=3 Port=80,unix:/s Port=80,9000 PoWDefensesEnabled=1 PoWQueueRate=5 PoWQueueBurst=6 ClientAuthV3="+client,
		"250-ServiceID="+address+"\r\n250-ClientAuthV3="+client+"\r\n250 OK\r\n")
	c.do("DEL_ONION "+address, "250 OK\r\n")
	r.engine.findable.Store(true)
	c.do("ADD_ONION NEW:BEST Port=80", "512 Tor is in non-anonymous hidden service mode\r\n")
	c.do("ADD_ONION NEW:BEST Port=80 Flags=NonAnonymous", "250-ServiceID="+address+"\r\n250-PrivateKey=ED25519-V3:secret\r\n250 OK\r\n")
	c.do("DEL_ONION "+address, "250 OK\r\n")
	r.engine.findable.Store(false)
	c.do("ADD_ONION ED25519-V3:"+key+" Port=81,[::1]:82", "250-ServiceID="+address+"\r\n250 OK\r\n")
	want := []string{"add 0 [80=127.0.0.1:80] 0 false false 0 0 []", "del " + address,
		"add 0 [80=unix:/s 80=127.0.0.1:9000] 3 true true 5 6 [" + client + "]", "del " + address,
		"add 0 [80=127.0.0.1:80] 0 false false 0 0 []", "del " + address, "add 64 [81=[::1]:82] 0 false false 0 0 []"}
	if told := r.engine.told(); !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

// TestOnionOwners: a service ends with its connection, unless it is detached; others do not see it and cannot end it.
func TestOnionOwners(t *testing.T) {
	r := newRig(t, Auth{})
	one, two, three := addressOf(t, 1), addressOf(t, 2), addressOf(t, 3)
	deleted := r.engine.give(one, two, three)
	c, other := r.dial(), r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	other.do("AUTHENTICATE", "250 OK\r\n")
	c.do("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK", "250-ServiceID="+one+"\r\n250 OK\r\n")
	c.do("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK,Detach", "250-ServiceID="+two+"\r\n250 OK\r\n")
	c.do("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK", "250-ServiceID="+three+"\r\n250 OK\r\n")
	c.do("GETINFO onions/current", "250+onions/current=\r\n"+one+"\r\n"+three+"\r\n.\r\n250 OK\r\n")
	other.do("GETINFO onions/current onions/detached", "250-onions/current=\r\n250-onions/detached="+two+"\r\n250 OK\r\n")
	other.do("DEL_ONION "+one, "552 Unknown Onion Service id\r\n")
	c.Close()
	if a, b := <-deleted, <-deleted; a != one || b != three {
		t.Error(a, b)
	}
	other.do("DEL_ONION "+two, "250 OK\r\n")
	<-deleted
	r.srv.Close() // waits for the sessions, which count last
	r.srv.onions.mu.Lock()
	defer r.srv.onions.mu.Unlock()
	if r.srv.onions.count != 0 || len(r.srv.onions.detached) > 0 {
		t.Error(r.srv.onions.count, r.srv.onions.detached)
	}
}

// TestOnionsLeave: a controller that goes away before the reply has its service ended, too.
func TestOnionsLeave(t *testing.T) {
	r := newRig(t, Auth{})
	one := addressOf(t, 1)
	deleted := r.engine.give(one)
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	fmt.Fprint(c, "ADD_ONION NEW:BEST Port=80\r\n")
	c.Close()
	if got := <-deleted; got != one {
		t.Error(got)
	}
}

// TestMaxOnions: controllers together have a bounded number of services, and one that ends makes room.
func TestMaxOnions(t *testing.T) {
	r := newRig(t, Auth{})
	var all []string
	for i := range maxOnions + 1 {
		all = append(all, addressOf(t, i))
	}
	r.engine.give(all...)
	c, other := r.dial(), r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	other.do("AUTHENTICATE", "250 OK\r\n")
	for _, address := range all[:maxOnions] {
		c.do("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK,Detach", "250-ServiceID="+address+"\r\n250 OK\r\n")
	}
	other.do("ADD_ONION NEW:BEST Port=80", "551 Failed to add Onion Service\r\n")
	other.do("DEL_ONION "+all[0], "250 OK\r\n")
	other.do("ADD_ONION NEW:BEST Port=80 Flags=DiscardPK", "250-ServiceID="+all[maxOnions]+"\r\n250 OK\r\n")
}

// TestMaxOnionPorts: a service has a bounded number of ports, and of clients.
func TestMaxOnionPorts(t *testing.T) {
	r := newRig(t, Auth{})
	r.engine.give(addressOf(t, 1))
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	c.do("ADD_ONION NEW:BEST"+strings.Repeat(" Port=80", maxOnionPorts+1), "512 Invalid VIRTPORT/TARGET\r\n")
	c.do("ADD_ONION NEW:BEST Port=80 Flags=V3Auth"+strings.Repeat(" ClientAuthV3="+strings.Repeat("a", 52), maxOnionClients+1), "512 Invalid client authorization\r\n")
	c.do("ADD_ONION NEW:BEST Flags=DiscardPK"+strings.Repeat(" Port=80", maxOnionPorts), "250-ServiceID="+addressOf(t, 1)+"\r\n250 OK\r\n")
}

// TestOnionCollision: the engine's refusal reaches the controller, and takes no place.
func TestOnionCollision(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	for range maxOnions + 1 {
		c.do("ADD_ONION NEW:BEST Port=80", "550 Onion address collision\r\n")
	}
}

// TestOnionClientAuth: keys come, are shown and go, with C tor's answers.
func TestOnionClientAuth(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	a, b := addressOf(t, 1), addressOf(t, 2)
	key := "x25519:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, one := range [][2]string{
		{"ONION_CLIENT_AUTH_VIEW", "250-ONION_CLIENT_AUTH_VIEW\r\n250 OK\r\n"},
		{"ONION_CLIENT_AUTH_ADD", "512 Incomplete ONION_CLIENT_AUTH_ADD command\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a, "512 Incomplete ONION_CLIENT_AUTH_ADD command\r\n"},
		{"ONION_CLIENT_AUTH_ADD abc " + key, "512 Invalid v3 address \"abc\"\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " x25519", "512 Invalid key type/blob\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " rsa:AAAA", "552 Unrecognized key type \"rsa\"\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " x25519:AAAA", "512 Failed to decode x25519 private key\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " x25519:" + zero, "553 Invalid private key \"" + zero + "\"\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " Flags=Other", "512 Invalid 'Flags' argument: \"Other\"\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " Flags=", "512 Invalid 'Flags' argument\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " ClientName=bad", "553 Unable to store creds for \"" + a + "\"\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " ClientName=12345678901234567", "512 ClientName longer than 16 chars\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " Flags=Permanent ClientName=bob", "250 OK\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + a + " " + key + " Flags=Permanent ClientName=bob", "251 Client for onion existed and replaced\r\n"},
		{"ONION_CLIENT_AUTH_ADD " + b + " " + key, "250 OK\r\n"},
		{"ONION_CLIENT_AUTH_VIEW " + b, "250-ONION_CLIENT_AUTH_VIEW " + b + "\r\n250-CLIENT " + b + " " + key + "\r\n250 OK\r\n"},
		{"ONION_CLIENT_AUTH_VIEW abc", "512 Invalid v3 address \"abc\"\r\n"},
		{"ONION_CLIENT_AUTH_REMOVE", "512 Incomplete ONION_CLIENT_AUTH_REMOVE command\r\n"},
		{"ONION_CLIENT_AUTH_REMOVE abc", "512 Invalid v3 address \"abc\"\r\n"},
		{"ONION_CLIENT_AUTH_REMOVE " + b, "250 OK\r\n"},
		{"ONION_CLIENT_AUTH_REMOVE " + b, "251 No credentials for \"" + b + "\"\r\n"},
		{"ONION_CLIENT_AUTH_VIEW", "250-ONION_CLIENT_AUTH_VIEW\r\n250-CLIENT " + a + " " + key + " Flags=Permanent ClientName=bob\r\n250 OK\r\n"},
	} {
		c.do(one[0], one[1])
	}
}

// TestDescriptorCommands: HSFETCH and HSPOST check what they are given.
func TestDescriptorCommands(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	a := addressOf(t, 1)
	for _, one := range [][2]string{
		{"HSFETCH", "512 Bad arguments to HSFETCH: Need at least 1 argument(s)\r\n"},
		{"HSFETCH abc", "513 Invalid argument \"abc\"\r\n"},
		{"HSFETCH facebookcorewwwi", "513 Invalid argument \"facebookcorewwwi\"\r\n"},
		{"HSFETCH " + a + " Other=1", "512 Bad arguments to HSFETCH: Unrecognized keyword argument \"Other\"\r\n"},
		{"HSFETCH " + a + " SERVER=abc", "552 Server \"abc\" not found\r\n"},
		{"HSFETCH " + a + " SERVER=" + strings.Replace(aServer, "A", "B", 1), "552 Server \"" + strings.Replace(aServer, "A", "B", 1) + "\" not found\r\n"},
		{"HSFETCH " + a + strings.Repeat(" SERVER="+aServer, maxServers+1), "512 more than 32 servers\r\n"},
		{"HSFETCH " + a + " SERVER=$" + aServer + "~name", "250 OK\r\n"},
		{"HSFETCH " + a, "250 OK\r\n"},
		{"HSPOST HSADDRESS=" + a, "512 Bad arguments to HSPOST: Empty body\r\n"},
		{"+HSPOST\r\nx\r\n.", "512 Malformed onion address\r\n"},
		{"+HSPOST HSADDRESS=abc\r\nx\r\n.", "512 Malformed onion address\r\n"},
		{"+HSPOST SERVER=abc HSADDRESS=" + a + "\r\nx\r\n.", "552 Server \"abc\" not found\r\n"},
		{"+HSPOST Other=abc HSADDRESS=" + a + "\r\nx\r\n.", "512 Bad arguments to HSPOST: Unrecognized keyword argument \"Other\"\r\n"},
		{"+HSPOST HSADDRESS=" + a + "\r\nbad\r\n.", "554 Invalid descriptor\r\n"},
		{"+HSPOST SERVER=" + aServer + " HSADDRESS=" + a + "\r\nx\r\ny\r\n.", "250 OK\r\n"},
	} {
		c.do(one[0], one[1])
	}
	want := []string{"fetch " + a + " 1", "fetch " + a + " 0", "post " + a + " \"bad\\n\" 0", "post " + a + " \"x\\ny\\n\" 1"}
	if told := r.engine.told(); !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

// TestEventData: the data of an event stands before its last line, and cannot end early.
func TestEventData(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.dial()
	c.do("AUTHENTICATE", "250 OK\r\n")
	c.do("SETEVENTS HS_DESC_CONTENT", "250 OK\r\n")
	if err := r.srv.EventData("HS_DESC_CONTENT", "a b c", []byte("one\n.two\r\n.\nend")); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.EventData("HS_DESC_CONTENT", "a b c", nil); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.EventData("HS_DESC_CONTENT", "a b c", []byte("a\rb\n")); err == nil {
		t.Error("a line break within a line")
	}
	c.want("650+HS_DESC_CONTENT a b c\r\none\r\n..two\r\n..\r\nend\r\n.\r\n650 OK\r\n650+HS_DESC_CONTENT a b c\r\n.\r\n650 OK\r\n")
}
