package interop

import (
	"encoding/xml"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestSystemdUnits checks the units with systemd, which must understand every
// line.
func TestSystemdUnits(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	labtest.Need(t, "systemd-analyze", err)
	bin := command(t)
	units, err := filepath.Glob("../contrib/systemd/*.service")
	if err != nil || len(units) < 2 {
		t.Fatal(units, err)
	}
	sockets, err := filepath.Glob("../contrib/systemd/*.socket")
	if err != nil || len(sockets) < 1 {
		t.Fatal(sockets, err)
	}
	dir := t.TempDir() // of all, since a socket needs its service
	for _, u := range append(units, sockets...) {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.Base(u))
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/chive", bin)), 0o600); err != nil {
			t.Fatal(err)
		}
		// It prints nothing about a correct unit; it may complain about other
		// units. The manual pages are not installed where this is tested.
		out, err := exec.CommandContext(bounded(t, patience), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(u)) {
			t.Errorf("%s: %v: %s", u, err, out)
		}
	}
}

// TestUnitsCheckTheirSettings runs the commands that the units run before the
// service, as a service user without a home directory.
func TestUnitsCheckTheirSettings(t *testing.T) {
	etc := t.TempDir()
	public, err := exec.CommandContext(bounded(t, time.Minute), command(t), "network", "public").Output()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"proxy.toml":     "socks = [\"127.0.0.1:9050\"]\n",
		"onion.toml":     "[[onion]]\nkey-dir = \"" + filepath.Join(etc, "shop") + "\"\nport = \"80=127.0.0.1:8080\"\n",
		"relay.toml":     "nickname = \"unit\"\norport = [\"127.0.0.1:9001\"]\naddress = [\"192.0.2.1:9001\"]\n",
		"authority.toml": "network = \"" + filepath.Join(etc, "net.toml") + "\"\nnickname = \"unit\"\norport = \"192.0.2.1:9001\"\ndirport = \"192.0.2.1:9030\"\n",
		"net.toml":       string(public),
	} {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range []string{"chive-proxy", "chive-onion", "chive-relay", "chive-authority"} {
		text, err := os.ReadFile("../contrib/systemd/" + unit + ".service")
		if err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(string(text), "\nExecStartPre=/usr/local/bin/chive ")
		if !found {
			t.Fatal(unit, "checks nothing")
		}
		line, _, _ = strings.Cut(line, "\n")
		line = strings.NewReplacer("/etc/chive", etc, "%S", t.TempDir()).Replace(line)
		cmd := exec.CommandContext(bounded(t, time.Minute), command(t), strings.Fields(line)...)
		cmd.Env = []string{}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", unit, err, out)
		}
	}
}

// TestLaunchd checks that the files for launchd are XML, and that chive takes the
// arguments in them.
func TestLaunchd(t *testing.T) {
	files, err := filepath.Glob("../contrib/launchd/*.plist")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var plist struct {
			Keys    []string `xml:"dict>key"`
			Strings []string `xml:"dict>string"`
			Args    []string `xml:"dict>array>string"`
		}
		if err := xml.Unmarshal(text, &plist); err != nil {
			t.Fatal(f, err)
		}
		if len(plist.Args) < 4 || plist.Args[0] != "/usr/local/bin/chive" || plist.Strings[0]+".plist" != filepath.Base(f) || !slices.Contains(plist.Keys, "KeepAlive") {
			t.Errorf("%s: %+v", f, plist)
			continue
		}
		// Flags are read before --help is.
		if out, err := exec.CommandContext(bounded(t, time.Minute), command(t), append(plist.Args[1:], "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", f, err, out)
		}
	}
}

// TestNotify checks that a relay does what Type=notify requires.
func TestNotify(t *testing.T) {
	nw := contribLab(t)
	bin, dir := command(t), t.TempDir()
	t.Chdir(dir) // whose path may be too long for a socket's
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	said := func() string {
		t.Helper()
		if err := sock.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := sock.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	cmd := exec.Command(bin, "relay", "--network", nw.NetworkFile, "--data-dir", filepath.Join(dir, "relay"), "--nickname", "notify", "--orport", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+sock.LocalAddr().String())
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if s := said(); s != "READY=1" {
		t.Error(s)
	}
	// The messages that it sends meanwhile are kept for the check below.
	if err := end(t, cmd, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if s := said(); s != "STOPPING=1" {
		t.Error(s)
	}
}

// contribLab is a small network of Chive's.
func contribLab(t *testing.T) *lab.Network {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no processes")
	}
	nw, err := lab.Start(bounded(t, patience), lab.Options{Authorities: 1, Relays: 2, Exits: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nw.Close() })
	return nw
}
