package programs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOnionBalance: OnionBalance publishes the descriptor of an address whose backend is Chive, through Chive's control port, and
// another client of Chive fetches a page from that address. OnionBalance waits some minutes by itself, and knows test networks
// with a vote each 20 seconds alone.
func TestOnionBalance(t *testing.T) {
	p := python(t, "onionbalance")
	need(t, "curl")
	n, stop, err := up("20s")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	before := lab
	lab = n
	defer func() { lab = before }()

	dir := t.TempDir()
	gen := exec.Command(filepath.Join(filepath.Dir(p), "onionbalance-config"), "--no-interactive", "-n", "1", "--output", dir+"/config")
	gen.Env = append(os.Environ(), "HOME="+dir)
	gen.Dir = dir
	if out, err := gen.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	keys, err := filepath.Glob(dir + "/config/*.key")
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	front := strings.TrimSuffix(filepath.Base(keys[0]), ".key") + ".onion"

	service := dir + "/service"
	if err := os.Mkdir(service, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(service+"/ob_config", []byte("MasterOnionAddress "+front+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	back := start(t, "HiddenServiceDir "+service, "HiddenServicePort 80 "+page(t, "by a backend"), "HiddenServiceOnionBalanceInstance 1")
	name, err := os.ReadFile(service + "/hostname")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("services:\n- instances:\n  - address: %s\n    name: node1\n  key: %s\n", strings.TrimSpace(string(name)), filepath.Base(keys[0]))
	if err := os.WriteFile(dir+"/config/config.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	client := start(t)
	_, port, _ := strings.Cut(back.Control, ":")
	cmd := exec.Command(filepath.Join(filepath.Dir(p), "onionbalance"), "--is-testnet", "-c", dir+"/config/config.yaml", "-s", dir+"/none", "-i", "127.0.0.1", "-p", port, "-v", "debug")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		} else if !strings.Contains(log.String(), "Successfully uploaded descriptor") {
			t.Error("it uploaded no descriptor")
		}
	}()
	for limit := time.Now().Add(8 * time.Minute); ; {
		out, err := exec.Command("curl", "-sS", "--max-time", "30", "-x", "socks5h://"+client.Socks, "http://"+front+"/").Output()
		if err == nil && string(out) == "by a backend" {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no page: %q, %v", out, err)
		}
		time.Sleep(5 * time.Second) // nothing tells when OnionBalance publishes
	}
}
