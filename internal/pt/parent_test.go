package pt

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/upstream"
)

// modeVar makes this test binary a transport process.
const modeVar = "CHIVE_TEST_TRANSPORT"

func TestMain(m *testing.M) {
	mode, ok := os.LookupEnv(modeVar)
	if !ok {
		os.Exit(m.Run())
	}
	switch mode {
	case "stubborn": // offers something, and ignores that it should end
		fmt.Print("VERSION 1\nCMETHOD x socks5 127.0.0.1:1\nCMETHODS DONE\n")
		select {}
	case "once": // works at the second start only
		mark := filepath.Join(os.Getenv("TOR_PT_STATE_LOCATION"), "started")
		if _, err := os.Stat(mark); err != nil {
			os.WriteFile(mark, nil, 0o600)
			os.Exit(3)
		}
		fmt.Print("VERSION 1\nCMETHOD x socks5 127.0.0.1:7\nCMETHODS DONE\n")
		io.Copy(io.Discard, os.Stdin)
	case "wrapper": // ends, and leaves a child that has its stdin and stdout
		mark := filepath.Join(os.Getenv("TOR_PT_STATE_LOCATION"), "started")
		if _, err := os.Stat(mark); err == nil {
			fmt.Print("VERSION 1\nCMETHOD x socks5 127.0.0.1:7\nCMETHODS DONE\n")
			io.Copy(io.Discard, os.Stdin)
			return
		}
		os.WriteFile(mark, nil, 0o600)
		self, _ := os.Executable()
		child := exec.Command(self)
		child.Env = append(os.Environ(), modeVar+"=VERSION 1|CMETHOD x socks5 127.0.0.1:5|CMETHODS DONE|")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if child.Start() != nil {
			os.Exit(4)
		}
		os.Exit(3)
	default:
		fmt.Print(strings.ReplaceAll(mode, "|", "\n"))
		io.Copy(io.Discard, os.Stdin)
	}
}

// launch runs this test binary as a transport process.
func launch(t *testing.T, mode string, cfg ProcessConfig) *Process {
	t.Helper()
	t.Setenv(modeVar, mode)
	var err error
	if cfg.Path, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	if cfg.StateDir == "" {
		cfg.StateDir = filepath.Join(t.TempDir(), "state")
	}
	if cfg.Transports == nil {
		cfg.Transports = []string{"x"}
	}
	p := Launch(cfg)
	t.Cleanup(p.Close)
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestProcessFaults(t *testing.T) {
	proxy, err := upstream.Parse("socks5://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{
		"VERSION-ERROR no-version|":                                      "version 1",
		"VERSION 2|":                                                     "version",
		"ENV-ERROR none of 10.1.2.3:80|":                                 "[scrubbed]",
		"CMETHOD x socks5 127.0.0.1:1|":                                  "before VERSION",
		"VERSION 1|CMETHOD y socks5 127.0.0.1:1|":                        "not asked for",
		"VERSION 1|CMETHOD x http 127.0.0.1:1|":                          "neither",
		"VERSION 1|CMETHOD-ERROR x no luck|CMETHODS DONE|":               "no luck",
		"VERSION 1|CMETHODS DONE|":                                       "does not offer",
		"VERSION 1|" + strings.Repeat("x", maxLine+1):                    "more than",
		"VERSION 1|PROXY DONE|NEWS|CMETHOD x socks5 1.1.1.1:|":           "port",
		"VERSION 1|CMETHOD x socks5 127.0.0.1:1|SMETHODS|CMETHODS DONE|": "DONE",
	} {
		t.Run("", func(t *testing.T) {
			p := launch(t, mode, ProcessConfig{})
			if _, err := p.Method(within(t), "x"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v", mode, err)
			}
		})
	}
	p := launch(t, "VERSION 1|CMETHOD x socks5 127.0.0.1:1|CMETHODS DONE|", ProcessConfig{Proxy: proxy})
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Config) {
		t.Errorf("a plugin that passes the proxy over: %v", err)
	}
	p = Launch(ProcessConfig{Path: "/nonexistent/transport", Transports: []string{"x"}, StateDir: t.TempDir()})
	defer p.Close()
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Config) {
		t.Errorf("a program that isn't there: %v", err)
	}
}

// TestStrangeTalk: a line for people to read that cannot be read does not end the
// process, whose connections would end too. C tor lets it go on as well.
func TestStrangeTalk(t *testing.T) {
	for _, line := range []string{"LOG", "LOG SEVERITY=loud MESSAGE=x", "LOG SEVERITY=notice MESSAGE=two words", `LOG MESSAGE="x`, "STATUS ready", `STATUS TYPE=version VERSION="1`} {
		p := launch(t, "VERSION 1|"+line+"|CMETHOD x socks5 127.0.0.1:1|CMETHODS DONE|", ProcessConfig{})
		if _, err := p.Method(within(t), "x"); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		p.Close()
	}
}

// TestRestart: a process that ended is started again, even if a child of it still has
// its output.
func TestRestart(t *testing.T) {
	for _, mode := range []string{"once", "wrapper"} {
		t.Run(mode, func(t *testing.T) { testRestart(t, mode) })
	}
}

func testRestart(t *testing.T, mode string) {
	p := launch(t, mode, ProcessConfig{})
	ctx := within(t)
	for {
		m, err := p.Method(ctx, "x")
		if err == nil && m.Addr.Port() == 7 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// TestKilled: a process that doesn't end by itself is ended, and Method says
// that it is.
func TestKilled(t *testing.T) {
	p := launch(t, "stubborn", ProcessConfig{})
	if _, err := p.Method(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := p.Method(within(t), "x"); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

func TestEnvironment(t *testing.T) {
	p := &Process{cfg: ProcessConfig{Transports: []string{"a", "b"}, StateDir: "/s", Server: &Server{
		Bind:    map[string]netip.AddrPort{"b": netip.MustParseAddrPort("[::1]:2"), "a": netip.MustParseAddrPort("127.0.0.1:1")},
		Options: map[string]ptspec.Args{"a": {"k;": `v\:=`}, "b": {"x": "y"}},
		ORPort:  netip.MustParseAddrPort("127.0.0.1:9001"), ExtORPort: netip.MustParseAddrPort("127.0.0.1:9002"), CookieFile: "/c",
	}}}
	// The plugin's side, which C tor judges, must read what this side writes.
	got := map[string]string{}
	for _, kv := range p.env([]string{"TOR_PT_PROXY=socks5://x:1", "HOME=/h"}) {
		k, v, _ := strings.Cut(kv, "=")
		got[k] = v
	}
	if got["HOME"] != "/h" || got["TOR_PT_PROXY"] != "" {
		t.Error(got)
	}
	e, err := ptspec.ParseEnv(func(k string) string { return got[k] })
	if err != nil {
		t.Fatal(err)
	}
	s := p.cfg.Server
	if e.Client || !e.ExitOnStdinClose || e.StateDir != "/s" || !maps.Equal(e.BindAddrs, s.Bind) || e.ORPort != s.ORPort ||
		e.ExtORPort != s.ExtORPort || e.CookieFile != "/c" || !maps.Equal(e.Options["a"], s.Options["a"]) || strings.Join(e.Transports, ",") != "a,b" {
		t.Errorf("%+v", e)
	}
}
