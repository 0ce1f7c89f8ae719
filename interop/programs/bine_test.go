package programs

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cretz/bine/control"
	"github.com/cretz/bine/tor"
)

// TestBineOffline: what bine's own tests do without a network. It starts tor, authenticates in each way, and configures it.
func TestBineOffline(t *testing.T) {
	start := func(conf tor.StartConf) *tor.Tor {
		conf.ExePath = asTor(t)
		conf.TempDataDirBase = t.TempDir()
		conf.ExtraArgs = append(conf.ExtraArgs, "--quiet")
		b, err := tor.Start(t.Context(), &conf)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	halt := func(b *tor.Tor) {
		if err := b.Close(); err != nil {
			t.Errorf("its end: %v", err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for _, way := range []struct {
		conf     tor.StartConf
		password string
		methods  string
	}{
		{tor.StartConf{DisableCookieAuth: true, DisableEagerAuth: true}, "", "NULL"},
		{tor.StartConf{DisableEagerAuth: true}, "", "COOKIE SAFECOOKIE"},
		{tor.StartConf{DisableCookieAuth: true, DisableEagerAuth: true, ExtraArgs: []string{"--HashedControlPassword", "16:5417AE717521511A609921392778FFA8518EC089BF2162A199241AEB4A"}}, "testpass", "HASHEDPASSWORD"},
	} {
		b := start(way.conf)
		info, err := b.Control.ProtocolInfo()
		if err != nil || strings.Join(info.AuthMethods, " ") != way.methods {
			t.Errorf("methods: %v, %v", info, err)
		}
		must(b.Control.Authenticate(way.password))
		halt(b)
	}

	b := start(tor.StartConf{})
	defer halt(b)
	values := func(want string) {
		t.Helper()
		got, err := b.Control.GetConf("LogMessageDomains", "ProtocolWarnings")
		if err != nil || len(got) != 2 || got[0].Val != want || got[1].Val != want {
			t.Errorf("not all are %s: %v, %v", want, got, err)
		}
	}
	values("0")
	must(b.Control.SetConf(control.KeyVals("LogMessageDomains", "1", "ProtocolWarnings", "1")...))
	values("1")
	must(b.Control.ResetConf(control.KeyVals("LogMessageDomains", "", "ProtocolWarnings", "")...))
	values("0")
	text, err := b.Control.GetInfo("config-text")
	must(err)
	must(b.Control.LoadConf(text[0].Val + "\r\nLogMessageDomains 1"))
	values2, err := b.Control.GetInfo("config-text")
	must(err)
	if !strings.Contains(values2[0].Val, "LogMessageDomains 1") {
		t.Errorf("LOADCONF: %s", values2[0].Val)
	}
	must(b.Control.SaveConf(false))
	must(b.Control.Signal("HEARTBEAT"))
}

// TestBine: bine starts tor, enables the network, fetches a page, and serves an onion that it fetches from.
func TestBine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := tor.Start(ctx, &tor.StartConf{ExePath: asTor(t), TempDataDirBase: t.TempDir(), TorrcFile: torrcFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := b.EnableNetwork(ctx, true); err != nil {
		t.Fatal(err)
	}
	dialer, err := b.Dialer(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	get := func(url string) string {
		r, err := web.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := get(lab.Target); len(got) != 1_000_000 {
		t.Errorf("got %d bytes", len(got))
	}
	onion, err := b.Listen(ctx, &tor.ListenConf{RemotePorts: []int{80}, Version3: true})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("by bine")) })}
	go server.Serve(onion)
	defer server.Close()
	if got := get("http://" + onion.ID + ".onion/test"); got != "by bine" {
		t.Errorf("got %q", got)
	}
	fetched := make(chan control.Event, 10)
	if err := b.Control.AddEventListener(fetched, control.EventCodeHSDescContent); err != nil {
		t.Fatal(err)
	}
	if err := b.Control.GetHiddenServiceDescriptorAsync(onion.ID, ""); err != nil {
		t.Fatal(err)
	}
	go b.Control.HandleEvents(ctx)
	select {
	case e := <-fetched:
		if d, ok := e.(*control.HSDescContentEvent); !ok || d.Address != onion.ID || !strings.HasPrefix(d.Descriptor, "hs-descriptor 3") {
			t.Errorf("got %#v", e)
		}
	case <-ctx.Done():
		t.Error("no descriptor")
	}
}
