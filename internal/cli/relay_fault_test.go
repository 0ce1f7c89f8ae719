package cli

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lonely is the file of a network whose authority does not run.
const lonely = `name = "lonely"

[[authority]]
nickname = "nobody"
v3ident = "1111111111111111111111111111111111111111"
rsa = "2222222222222222222222222222222222222222"
orport = ["127.0.0.1:1"]

[testing]
allow_private_addresses = true
`

// relayProcess starts "chive relay" as a process: the test binary runs as chive
// if its name is chive.
func relayProcess(t *testing.T, wrap []string, dataDir, network string) (*exec.Cmd, *bytes.Buffer, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	chive := filepath.Join(t.TempDir(), "chive")
	if err := os.Symlink(self, chive); err != nil {
		t.Fatal(err)
	}
	args := append(wrap, chive, "relay", "--network", network, "--data-dir", dataDir, "--nickname", "tough", "--orport", "127.0.0.1:0", "--assume-reachable")
	cmd := exec.Command(args[0], args[1:]...)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		cmd.Process.Kill()
		_ = cmd.Wait() // a second time, perhaps; or killed
	})
	return cmd, &words, bufio.NewScanner(out)
}

// ready reads the output of a relay until it is ready.
func ready(t *testing.T, words *bytes.Buffer, out *bufio.Scanner) map[string]string {
	t.Helper()
	said := map[string]string{}
	for out.Scan() {
		if out.Text() == "ready" {
			return said
		}
		k, v, _ := strings.Cut(out.Text(), " ")
		said[k] = v
	}
	t.Fatalf("the relay ended: %s", words)
	return nil
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestKilledRelay kills a relay at random moments of its first start, and starts
// it again each time: the identity files that it has written stay the same, and
// at last it runs.
func TestKilledRelay(t *testing.T) {
	dir := t.TempDir()
	network := writeFile(t, filepath.Join(dir, "net.toml"), lonely)
	data := filepath.Join(dir, "data")
	rng := rand.New(rand.NewPCG(1, 2))
	identity := map[string][]byte{"secret_id_key": nil, "ed25519_master_id_secret_key": nil, "ed25519_master_id_public_key": nil}
	check := func(when string) {
		t.Helper()
		for name, had := range identity {
			b, err := os.ReadFile(filepath.Join(data, "keys", name))
			if err == nil && had == nil {
				identity[name] = b
			}
			if had != nil && !bytes.Equal(b, had) {
				t.Fatalf("%s: %s is another: %v", when, name, err)
			}
		}
	}
	for range 12 {
		cmd, _, _ := relayProcess(t, nil, data, network)
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond) // not to wait for anything: to be killed at any moment
		cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		check("killed")
	}
	cmd, words, out := relayProcess(t, nil, data, network)
	said := ready(t, words, out)
	check("running")
	cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	for name, b := range identity {
		if b == nil {
			t.Errorf("no %s", name)
		}
	}
	cmd, words, out = relayProcess(t, nil, data, network)
	again := ready(t, words, out)
	if again["fingerprint"] != said["fingerprint"] {
		t.Errorf("it was %s, and is %s", said["fingerprint"], again["fingerprint"])
	}
	cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	parts, err := filepath.Glob(filepath.Join(data, "keys", ".*"))
	if err != nil || len(parts) > 0 {
		t.Errorf("parts of files stay: %v %v", parts, err)
	}
}

// smallDisk mounts a disk of the given size on a directory, in a new namespace,
// and returns the prefix of a command that runs there, and the path of the disk
// outside the namespace.
func smallDisk(t *testing.T, dir, size string) (enter []string, inside string) {
	t.Helper()
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o size="$2" none "$1" && echo mounted && exec sleep 600`, "sh", dir, size)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	mounted := false
	if err == nil {
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		mounted = bufio.NewScanner(out).Scan()
	}
	if !mounted {
		if os.Getenv("CHIVE_INTEROP") == "1" {
			t.Fatalf("no disk of its own for the test: %v %s", err, &words)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: no disk of its own: %v %s", err, &words)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	return []string{"nsenter", "--user", "--mount", "--preserve-credentials", "--target", pid}, filepath.Join("/proc", pid, "root", dir)
}

// TestFullDisk runs a relay on a disk that is too small for its keys, on one
// that fills up while it runs, and again on that one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	network := writeFile(t, filepath.Join(dir, "net.toml"), lonely)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}

	t.Run("too small", func(t *testing.T) {
		enter, inside := smallDisk(t, data, "16k")
		cmd, words, out := relayProcess(t, enter, data, network)
		for out.Scan() {
			t.Errorf("it says %q", out.Text())
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(words.String(), "no space left on device") || !strings.Contains(words.String(), "keys: write ") {
			t.Errorf("%v: %s", err, words)
		}
		if parts, err := filepath.Glob(filepath.Join(inside, "keys", ".*")); err != nil || len(parts) > 0 {
			t.Errorf("parts of files stay: %v %v", parts, err)
		}
	})

	t.Run("fills up", func(t *testing.T) {
		enter, inside := smallDisk(t, data, "1m")
		cmd, words, out := relayProcess(t, enter, data, network)
		said := ready(t, words, out)
		if err := os.WriteFile(filepath.Join(inside, "filler"), make([]byte, 2<<20), 0o600); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("the disk is not full: %v", err)
		}
		c, err := net.Dial("tcp", said["orport"])
		if err != nil {
			t.Fatal("it does not serve any more:", err)
		}
		c.Close()
		cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if strings.Contains(words.String(), "panic") {
			t.Error(words)
		}
		// If the keys exist, a start needs no space on the disk.
		_, words, out = relayProcess(t, enter, data, network)
		if again := ready(t, words, out); again["fingerprint"] != said["fingerprint"] {
			t.Errorf("it was %s, and is %s", said["fingerprint"], again["fingerprint"])
		}
	})
}
