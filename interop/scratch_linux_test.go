package interop

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestFromScratch runs a relay in a root directory with only the binary and a
// data directory, as an unnamed user: like the container file.
func TestFromScratch(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, NOTHING WAS TESTED: changing the root directory takes root")
	}
	nw := contribLab(t)
	const user = 65532
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(command(t))
	if err != nil {
		t.Fatal(err)
	}
	network, err := os.ReadFile(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "chive"), bin, 0o755), os.WriteFile(filepath.Join(root, "net.toml"), network, 0o644),
		os.Mkdir(filepath.Join(root, "data"), 0o700), os.Chown(filepath.Join(root, "data"), user, user),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/chive", "relay", "--network", "/net.toml", "--nickname", "scratch", "--orport", "127.0.0.1:0")
	cmd.Env, cmd.Dir, cmd.Stderr = []string{"XDG_STATE_HOME=/data"}, "/", t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	ready := false
	for s := bufio.NewScanner(out); !ready && s.Scan(); {
		ready = s.Text() == "ready"
	}
	if !ready {
		t.Fatal("it ended: ", cmd.Wait())
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "data/chive/relay/keys/secret_id_key")); err != nil {
		t.Error(err)
	}
}
