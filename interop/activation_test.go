package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/internal/lab/ports"
)

// quietNetwork is the file of a network whose authority does not run: the ports of a client are open all the same.
const quietNetwork = `name = "quiet"
[testing]
allow_private_addresses = true
[[authority]]
nickname = "a"
v3ident = "F533C81CEF0BC0267857C99B2F471ADF249FA232"
rsa = "2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C"
orport = ["127.0.0.1:1"]
`

// activate has systemd's own program listen at addresses and start chive proxy at the first connection, which
// it returns.
func activate(t *testing.T, listen []string, args ...string) (cmd *exec.Cmd, said *bytes.Buffer, first net.Conn) {
	t.Helper()
	_, err := exec.LookPath("systemd-socket-activate")
	labtest.Need(t, "systemd-socket-activate", err)
	bin, dir := command(t), t.TempDir()
	network := filepath.Join(dir, "net.toml")
	if err := os.WriteFile(network, []byte(quietNetwork), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, l := range listen {
		all = append(all, "--listen="+l)
	}
	all = append(all, "--fdname=web", bin, "proxy", "--network", network, "--data-dir", filepath.Join(dir, "data"))
	cmd = exec.CommandContext(bounded(t, patience), "systemd-socket-activate", append(all, args...)...)
	said = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if t.Failed() {
			t.Log(said)
		}
	})
	waiting := bounded(t, patience)
	for { // until it listens
		first, err = net.Dial("tcp", listen[0])
		if err == nil {
			t.Cleanup(func() { first.Close() })
			return cmd, said, first
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-waiting.Done():
			t.Fatal("it does not listen")
		}
	}
}

// TestSocketActivation: chive proxy serves the ports that systemd has opened, from the connection on that
// made systemd start it.
func TestSocketActivation(t *testing.T) {
	leases := new(ports.Leases)
	t.Cleanup(leases.Release)
	free := func() string {
		p, err := leases.Take(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint("127.0.0.1:", p)
	}
	t.Run("used", func(t *testing.T) {
		at, local := free(), filepath.Join(t.TempDir(), "socks")
		cmd, _, first := activate(t, []string{at, local}, "--socks", at, "--socks", "unix:"+local)
		second, err := net.Dial("unix", local)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		for _, c := range []net.Conn{first, second} {
			c.SetDeadline(time.Now().Add(patience))
			answer := make([]byte, 2)
			if _, err := c.Write([]byte{5, 1, 0}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 5 || answer[1] != 0 {
				t.Fatalf("%s: %x, %v", c.RemoteAddr(), answer, err)
			}
			c.Close()
		}
		if err := end(t, cmd, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(local); err != nil {
			t.Error("the socket of systemd has gone:", err)
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		at := free()
		cmd, said, _ := activate(t, []string{at}, "--socks", "127.0.0.1:0")
		err := cmd.Wait()
		const mistake = 2 // systemd's units do not start it again
		if cmd.ProcessState.ExitCode() != mistake || !strings.Contains(said.String(), `descriptor 3 ("web") is open at `+at) {
			t.Error(err, "and it does not name the port")
		}
	})
}
