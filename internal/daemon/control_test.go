package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// started runs a proxy until its status socket is open.
func started(t *testing.T, addr string, args ...string) *running {
	r := run(t, addr, args...)
	r.port(t, "socks")
	r.bootstrap(chive.BootstrapStatus{Percent: 1})
	return r
}

func (r *running) finish(t *testing.T) {
	t.Helper()
	r.stop <- syscall.SIGTERM
	r.end(t, nil)
}

// TestNewnym: a running client makes a new identity, and not another at once.
func TestNewnym(t *testing.T) {
	r := started(t, "")
	if wait, err := NewIdentity(t.Context(), r.dir); err != nil || wait != 0 {
		t.Fatal(wait, err)
	}
	if wait, err := NewIdentity(t.Context(), r.dir); err != nil || wait <= 0 || wait > identityEvery {
		t.Error(wait, err)
	}
	if r.client.identities != 1 {
		t.Errorf("%d new identities", r.client.identities)
	}
	// The log on the socket is the log. Its last line may come late.
	for !strings.Contains(r.log.String(), "msg=bootstrap") {
		runtime.Gosched()
	}
	st, err := ReadStatusAndLog(t.Context(), r.dir, 0)
	if err != nil || st.Proxy == nil || st.Role != "proxy" || st.Version == "" || st.LastLine == 0 || strings.Join(st.Log, "\n")+"\n" != r.log.String() {
		t.Errorf("%v %+v, not %s", err, st, r.log)
	}
	if st, err = ReadStatusAndLog(t.Context(), r.dir, st.LastLine); err != nil || len(st.Log) != 0 {
		t.Error(st, err)
	}
	r.finish(t)
	if _, err := NewIdentity(t.Context(), r.dir); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// TestReloadAsked: who may ask the process has it reload, and hears what was wrong.
func TestReloadAsked(t *testing.T) {
	r := started(t, "")
	set := func(file string) {
		t.Helper()
		if err := os.WriteFile(r.config, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("exclude-nodes = ['192.0.2.0/24']")
	if err := Reload(t.Context(), r.dir); err != nil {
		t.Error(err)
	}
	r.client.mu.Lock()
	if !slices.Equal(r.client.exclude, []string{"192.0.2.0/24"}) {
		t.Error("it has not reloaded", r.client.exclude)
	}
	r.client.mu.Unlock()
	set("exclude-nodes = 5")
	for range 2 {
		if err := Reload(t.Context(), r.dir); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "exclude-nodes") {
			t.Error(err)
		}
	}
	if err := Hosts(t.Context(), r.dir, "x.onion"); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	r.finish(t)
	if err := Reload(t.Context(), r.dir); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// TestReloadAskedAtTheEnd: who asks for a reload when the process ends is not left waiting, nor does the end wait.
func TestReloadAskedAtTheEnd(t *testing.T) {
	p := &Process{reloads: make(chan chan<- error), ending: make(chan struct{})}
	answers := make(chan reply)
	go func() { answers <- p.reloadAsked() }()
	close(p.ending)
	if r := <-answers; r.Error == "" || r.Done {
		t.Errorf("%+v", r)
	}
	p.ending = make(chan struct{})
	go func() { answers <- p.reloadAsked() }()
	<-p.reloads
	close(p.ending)
	if r := <-answers; r.Error == "" || r.Done {
		t.Errorf("%+v", r)
	}
}

// TestIdentityRate: the limit is over after its time.
func TestIdentityRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		i := &identity{renew: func() { n++ }, log: slog.New(slog.DiscardHandler)}
		for range 3 {
			if r := i.next(); r.Wait != 0 {
				t.Error(r)
			}
			time.Sleep(identityEvery - time.Second)
			if r := i.next(); r.Wait != time.Second {
				t.Error(r)
			}
			time.Sleep(time.Second)
		}
		if n != 3 {
			t.Error(n)
		}
	})
}

// TestStatusForms: an earlier version asks by connecting; what is not understood is
// answered, and stops nobody else.
func TestStatusForms(t *testing.T) {
	r := started(t, "")
	path := filepath.Join(r.dir, statusSocket)
	say := func(what string, half bool) string {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, what)
		if half {
			c.(*net.UnixConn).CloseWrite()
		}
		b, _ := io.ReadAll(c)
		return string(b)
	}
	stuck, err := net.Dial("unix", path) // reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	for _, v := range []struct {
		what string
		half bool
		want string
	}{
		{"", false, `{"role":"proxy",`}, {"", true, `{"role":"proxy",`}, {"{}", false, `{"role":"proxy",`},
		{"GET / HTTP/1.1\r\n\r\n", false, "not JSON"}, {`{"do":"burn"}`, false, "cannot be asked that"}, {`{"do":7}`, false, "not JSON"},
	} {
		if got := say(v.what, v.half); !strings.Contains(got, v.want) {
			t.Errorf("%q: %q", v.what, got)
		}
	}
	r.finish(t) // although somebody is stuck
}

// TestTooManyAsk: askers are bounded.
func TestTooManyAsk(t *testing.T) {
	r := started(t, "")
	var all []net.Conn
	for range maxAsking + 1 {
		c, err := net.Dial("unix", filepath.Join(r.dir, statusSocket))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	if b, err := io.ReadAll(all[maxAsking]); len(b) != 0 {
		t.Errorf("%q %v", b, err)
	}
	r.finish(t)
}

// clientSettings are those of chive get.
func clientSettings(t *testing.T, args ...string) *Settings {
	s, fs := NewClientSettings(), pflag.NewFlagSet("get", pflag.ContinueOnError)
	s.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestJoinClient: another command uses the client that runs, if it is what it asks for.
func TestJoinClient(t *testing.T) {
	r := started(t, web(t), "--pq", "require-all", "--exit-nodes", "a,b")
	for _, v := range []struct {
		args   []string
		differ string
	}{
		{nil, ""}, {[]string{"--pq", "require-all"}, ""}, {[]string{"--exit-nodes", "a", "--exit-nodes", "b"}, ""},
		{[]string{"--pq", "prefer"}, "pq"}, {[]string{"--exit-nodes", "b", "--strict-nodes"}, "exit-nodes, strict-nodes"},
		{[]string{"--exclude-nodes", "c"}, "exclude-nodes"},
	} {
		through, err := clientSettings(t, append(v.args, "--data-dir", r.dir)...).JoinClient(t.Context())
		if v.differ != "" {
			if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "these options: "+v.differ+": ") {
				t.Errorf("%q: %v", v.args, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Transport: &http.Transport{DialContext: through.DialContext, DisableKeepAlives: true}}
		resp, err := c.Get("http://host.test/")
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != "host.test" {
			t.Errorf("%q", b)
		}
		resp.Body.Close()
	}
	// A change at SIGHUP counts; one that waits for the next start does not.
	if err := os.WriteFile(r.config, []byte("exclude-nodes = \"c\"\nmax-memory = 100_000_000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.hangup <- syscall.SIGHUP
	r.hangup <- syscall.SIGHUP // is taken when the first was dealt with
	if _, err := clientSettings(t, "--data-dir", r.dir, "--exclude-nodes", "c").JoinClient(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := clientSettings(t, "--data-dir", r.dir, "--max-memory", "100000000").JoinClient(t.Context()); err == nil {
		t.Error("an option that is not in effect yet")
	}
	// After a reload that failed, what was in use before still is.
	// The file changes at once, because the second reload may still be reading it.
	if err := atomicfile.Write(r.config, []byte("exclude-nodes = \"d\"\n[[onion]]\nkey-dir = \"/a\"\nport = \"80\"\n"), atomicfile.Secret); err != nil {
		t.Fatal(err)
	}
	r.hangup <- syscall.SIGHUP
	r.hangup <- syscall.SIGHUP
	if _, err := clientSettings(t, "--data-dir", r.dir, "--exclude-nodes", "c").JoinClient(t.Context()); err != nil {
		t.Errorf("an option that is in effect: %v", err)
	}
	if _, err := clientSettings(t, "--data-dir", r.dir, "--exclude-nodes", "d").JoinClient(t.Context()); !fault.Is(err, fault.Config) {
		t.Errorf("an option of a reload that failed: %v", err)
	}
	if r.client.mu.Lock(); !slices.Equal(r.client.exclude, []string{"c"}) {
		t.Errorf("the client has %q of a reload that failed", r.client.exclude)
	}
	r.client.mu.Unlock()
	// Another network's client is none of ours.
	network := filepath.Join(t.TempDir(), "n.toml")
	text, err := chive.PublicNetwork().MarshalText()
	if err == nil {
		err = os.WriteFile(network, bytes.Replace(text, []byte(`name = "`), []byte(`name = "x`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientSettings(t, "--data-dir", r.dir, "--network", network).JoinClient(t.Context()); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "another network") {
		t.Error(err)
	}
	r.finish(t)
	if _, err := os.Stat(filepath.Join(r.dir, innerSocket)); err == nil {
		t.Error("the inner port's socket is left")
	}
}

// TestThroughErrors: what a program of the same user can get wrong.
func TestThroughErrors(t *testing.T) {
	r := started(t, "127.0.0.1:1") // refuses
	through, err := clientSettings(t, "--data-dir", r.dir).JoinClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := through.DialContext(t.Context(), "tcp", "host.test:80"); err == nil || !strings.Contains(err.Error(), "the client that runs: 403 Forbidden (connection refused)") {
		t.Error(err)
	}
	if _, err := through.DialContext(t.Context(), "tcp", "host.test:80\r\nX: y"); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	if _, err := through.DialContext(t.Context(), "udp", "host.test:80"); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	r.finish(t)
	if _, err := through.DialContext(t.Context(), "tcp", "host.test:80"); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
}

// TestNoClient: a relay cannot be asked what only a client can do.
func TestNoClient(t *testing.T) {
	p := &Process{node: new(relayNode)}
	a := p.answers()
	for _, do := range []string{askNewnym, askAgree} {
		var b bytes.Buffer
		a.answer(&b, request{Do: do})
		var r reply
		if err := json.Unmarshal(b.Bytes(), &r); err != nil || r.Error != "it is no client" {
			t.Error(do, err, r)
		}
	}
}

// TestEarlierVersion: a process that answers every request with its status has done nothing.
func TestEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	l, err := socks.ListenUnix(filepath.Join(dir, statusSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, `{"role":"proxy","network":"lab"}`)
			c.(*net.UnixConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	if _, err := NewIdentity(t.Context(), dir); !fault.Is(err, fault.Local) || !strings.Contains(err.Error(), "earlier version") {
		t.Error(err)
	}
	if _, err := clientSettings(t, "--data-dir", dir).JoinClient(t.Context()); err == nil || !strings.Contains(err.Error(), "earlier version") {
		t.Error(err)
	}
	if st, err := ReadStatus(t.Context(), dir); err != nil || st.Proxy == nil {
		t.Error(err)
	}
}

// TestPrintable: what a status says cannot steer a terminal.
func TestPrintable(t *testing.T) {
	const evil = "a\x1b[2J\r\u009bb"
	r := Report{Proxy: &chive.Status{Network: evil, Bootstrap: chive.BootstrapStatus{Problem: evil}, Guards: []chive.GuardStatus{{Nickname: evil}}}}
	var b strings.Builder
	r.Print(&b, time.Time{})
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || strings.Count(b.String(), "\n") != 7 {
		t.Errorf("%q", b.String())
	}
}

// TestLogRing: it keeps the last lines, and not more of each than there is room for.
func TestLogRing(t *testing.T) {
	var r logRing
	if got := r.after(0); len(got.Lines) != 0 || got.Last != 0 {
		t.Error(got)
	}
	for i := range ringLines + 5 {
		fmt.Fprintf(&r, "line %d\n", i+1)
	}
	got := r.after(0)
	if len(got.Lines) != ringLines || got.Lines[0] != "line 6" || got.Last != ringLines+5 {
		t.Error(len(got.Lines), got.Lines[0], got.Last)
	}
	if got := r.after(got.Last - 2); !slices.Equal(got.Lines, []string{"line 204", "line 205"}) {
		t.Error(got.Lines)
	}
	if got := r.after(1 << 60); len(got.Lines) != ringLines {
		t.Error("another process's number:", len(got.Lines))
	}
	line := []byte(strings.Repeat("x", 5000) + "\xff\n")
	if n, err := r.Write(line); n != len(line) || err != nil {
		t.Error(n, err)
	}
	if got := r.after(ringLines + 5).Lines; len(got) != 1 || len(got[0]) != ringLine+3 {
		t.Error(got)
	}
}
