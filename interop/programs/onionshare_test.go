package programs

import (
	"bufio"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// control is a controller's connection with the cookie.
func (r *running) control(t *testing.T) func(command string) string {
	t.Helper()
	c, err := net.Dial("tcp", r.Control)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	in := bufio.NewReader(c)
	ask := func(command string) string {
		t.Helper()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(c, "%s\r\n", command)
		all := ""
		for {
			l, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			if all += l; len(l) > 3 && l[3] == ' ' {
				return all
			}
		}
	}
	cookie, err := os.ReadFile(r.Cookie)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask("AUTHENTICATE " + hex.EncodeToString(cookie)); got != "250 OK\r\n" {
		t.Fatal(got)
	}
	return ask
}

var (
	onionURL   = regexp.MustCompile(`http://([a-z2-7]{56})\.onion`)
	privateKey = regexp.MustCompile(`Private key: ([A-Z2-7]{52})`)
)

// TestOnionShare: OnionShare shares a file with each way to a tor, and another tor fetches it, with the key that the file asks for.
func TestOnionShare(t *testing.T) {
	program := need(t, "onionshare-cli", "curl")[0]
	tor := start(t)
	ask := tor.control(t)

	// Its own tor is the program tor in PATH, which gets the private network by --defaults-torrc.
	path := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s --defaults-torrc %s \"$@\"\n", asTor(t), torrcFile(t))
	if err := os.WriteFile(path+"/tor", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(tor.Control, ":")
	// A client of Chive's own form, whose port lets OnionShare do what it needs, and no more.
	list, err := filepath.Abs(filepath.Join("..", "..", "contrib", "control", "onionshare.allow"))
	if err != nil {
		t.Fatal(err)
	}
	_, few, _ := strings.Cut(native(t, "proxy", "--socks", "127.0.0.1:0", "--control", "127.0.0.1:0 AllowList="+list)["control"], ":")
	for _, way := range []struct {
		kind string
		env  string
		args []string
	}{
		{"automatic", "TOR_CONTROL_PORT=" + port, nil},
		{"automatic", "TOR_CONTROL_PORT=" + port, []string{"--public"}},
		{"automatic", "TOR_CONTROL_PORT=" + few, nil},
		{"bundled", "PATH=" + path + ":" + os.Getenv("PATH"), nil},
		{"bundled", "PATH=" + path + ":" + os.Getenv("PATH"), []string{"--public"}},
	} {
		shared := filepath.Join(t.TempDir(), "file.txt")
		config := filepath.Join(t.TempDir(), "config.json")
		for name, text := range map[string]string{shared: "shared " + way.kind, config: `{"connection_type": "` + way.kind + `"}`} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(program, append(append([]string{"-v", "--config", config, "--no-autostop-sharing"}, way.args...), shared)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONUNBUFFERED=1", way.env)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		var text string
		for s := bufio.NewScanner(out); s.Scan(); {
			if text += s.Text() + "\n"; strings.Contains(s.Text(), "Ctrl+C to stop the server") {
				break
			}
		}
		go func() {
			for s := bufio.NewReader(out); ; {
				if _, err := s.ReadString('\n'); err != nil {
					return
				}
			}
		}()
		address := onionURL.FindStringSubmatch(text)
		if address == nil {
			t.Fatalf("%s serves no file:\n%s", way.kind, text)
		}
		if len(way.args) == 0 {
			key := privateKey.FindStringSubmatch(text)
			if key == nil {
				t.Fatalf("%s: no key:\n%s", way.kind, text)
			}
			secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(key[1])
			if err != nil {
				t.Fatal(err)
			}
			if got := ask("ONION_CLIENT_AUTH_ADD " + address[1] + " x25519:" + base64.StdEncoding.EncodeToString(secret)); got != "250 OK\r\n" {
				t.Error(got)
			}
		}
		if got := fetch(t, tor.Socks, address[0]+"/download", "-H", "Accept-Encoding: identity"); got != "shared "+way.kind {
			t.Errorf("%s %v: got %q", way.kind, way.args, got)
		}
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if !stop.Stop() {
			t.Errorf("%s had to be killed", way.kind)
		}
	}
}
