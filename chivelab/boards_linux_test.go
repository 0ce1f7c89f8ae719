package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/chivelab/internal/deploy"
)

// boards are seven machines with a stock sshd each: network namespaces, joined by a bridge.
type boards struct {
	dir        string
	user       string            // file of the user's key
	knownHosts map[string]string // by address
	also       map[deploy.Role]string
	circuits   int
}

const sshd = "/usr/sbin/sshd" // which wants to be called by its whole name

// inBoards runs the test that calls it once more, as the first process of new namespaces: whatever it starts there
// ends with it. It returns nil outside. configs are more settings of boards' sshd, small are the sizes of small disks.
func inBoards(t *testing.T, configs, small map[deploy.Role]string) *boards {
	if os.Getenv("CHIVE_BOARDS") == "" {
		outsideBoards(t)
		return nil
	}
	b := &boards{dir: t.TempDir(), knownHosts: map[string]string{}, also: map[deploy.Role]string{}, circuits: 2}
	b.user = b.key(t, "user")
	do(t, "mount", "-t", "tmpfs", "tmpfs", "/run")
	if err := os.Mkdir("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, "ip", "link", "set", "lo", "up")
	do(t, "ip", "link", "add", "boards", "type", "bridge")
	do(t, "ip", "addr", "add", "10.29.0.100/24", "dev", "boards")
	do(t, "ip", "link", "set", "boards", "up")
	for i, r := range deploy.Roles {
		name, addr := string(r), b.addr(i)
		do(t, "ip", "netns", "add", name)
		do(t, "ip", "link", "add", "to"+name, "type", "veth", "peer", "name", "eth0", "netns", name)
		do(t, "ip", "link", "set", "to"+name, "master", "boards", "up")
		do(t, "ip", "-n", name, "link", "set", "lo", "up")
		do(t, "ip", "-n", name, "addr", "add", addr+"/24", "dev", "eth0")
		do(t, "ip", "-n", name, "link", "set", "eth0", "up")
		host := b.key(t, name)
		pub, err := os.ReadFile(host + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		b.knownHosts[addr] = addr + " " + string(pub)
		conf := filepath.Join(b.dir, name+".conf")
		write(t, conf, fmt.Sprintf("ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s.pub\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nPidFile none\nLogLevel ERROR\n%s\n", addr, host, b.user, configs[r]))
		if err := os.Mkdir(b.board(r), 0o755); err != nil {
			t.Fatal(err)
		}
		if size := small[r]; size != "" {
			do(t, "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", b.board(r))
		}
		cmd := exec.Command("ip", "netns", "exec", name, sshd, "-D", "-e", "-f", conf)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range deploy.Roles {
		await(t, b.addr(i)+":22")
	}
	return b
}

// outsideBoards is the part of inBoards outside.
func outsideBoards(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs sshd")
	}
	var why error
	for _, p := range []string{sshd, "ssh", "ssh-keygen", "ip", "unshare"} {
		if _, err := exec.LookPath(p); err != nil {
			why = err
		}
	}
	if why != nil && os.Getenv("CHIVE_INTEROP") == "1" {
		t.Fatal(why)
	}
	unshare := []string{"unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if why == nil {
		if out, err := exec.Command(unshare[0], append(unshare[1:], "sh", "-c", "mount -t tmpfs tmpfs /run && ip link add x type bridge")...).CombinedOutput(); err != nil {
			why = fmt.Errorf("no namespaces with a bridge: %w: %s", err, out)
		}
	}
	if why != nil {
		t.Skip("SKIPPED, NOTHING WAS TESTED:", why)
	}
	cmd := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count", "1", "-test.timeout", "5m")...)
	cmd.Env = append(os.Environ(), "CHIVE_BOARDS=1", "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatal("inside: ", err)
	}
}

func (b *boards) addr(i int) string { return fmt.Sprintf("10.29.0.%d", i+1) }

// board is the directory in which a board lets the user write.
func (b *boards) board(r deploy.Role) string { return filepath.Join(b.dir, "board-"+string(r)) }

// key makes a key of ssh.
func (b *boards) key(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(b.dir, name)
	do(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file)
	return file
}

// inventory writes the inventory of the boards, with the rest of nodes' keys.
func (b *boards) inventory(t *testing.T) string {
	t.Helper()
	var keys, inv strings.Builder
	fmt.Fprintf(&inv, "circuits = %d\nknown_hosts = 'known_hosts'\n", b.circuits)
	for i, r := range deploy.Roles {
		keys.WriteString(b.knownHosts[b.addr(i)])
		fmt.Fprintf(&inv, "[[node]]\nrole = %q\naddress = %q\nuser = 'root'\n", r, b.addr(i))
		for key, value := range map[string]string{"identity": b.user, "directory": b.board(r)} {
			if !strings.Contains(b.also[r], key) {
				fmt.Fprintf(&inv, "%s = %q\n", key, value)
			}
		}
		inv.WriteString(b.also[r])
	}
	write(t, filepath.Join(b.dir, "known_hosts"), keys.String())
	file := filepath.Join(b.dir, "boards.toml")
	write(t, file, inv.String())
	return file
}

// left fails the test if something is left of a run: on the boards, here, or of its processes.
func (b *boards) left(t *testing.T) {
	t.Helper()
	for _, r := range deploy.Roles {
		if files, err := os.ReadDir(b.board(r)); err != nil || len(files) > 0 {
			t.Errorf("%s: %v is left, %v", r, files, err)
		}
	}
	if n := b.running(t); n != 0 {
		t.Error(n, "processes are left")
	}
	if files, err := filepath.Glob(filepath.Join(os.TempDir(), "chivelab-*")); err != nil || len(files) > 0 {
		t.Error("what is left:", files, err)
	}
}

// running counts the processes that the boards keep.
func (b *boards) running(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if line, _ := os.ReadFile(f); bytes.Contains(line, []byte("/.chivelab-deploy-")) { // it may have ended
			n++
		}
	}
	return n
}

func do(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// await waits until something listens.
func await(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
