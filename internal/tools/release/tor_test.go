package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// checkTor installs the package that puts Chive in the place of Debian's tor, and takes it away again.
func checkTor(t *testing.T, dir string) {
	t.Helper()
	chives, _ := filepath.Glob(dir + "/chive_*.deb")
	tors, _ := filepath.Glob(dir + "/chive-tor_*.deb")
	if len(chives) != 1 || len(tors) != 1 {
		t.Fatal(chives, tors)
	}
	root := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/alternatives", "etc/alternatives", "var/log", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) {
		t.Helper()
		command(t, dir, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-depends", "--force-architecture", "--log=/dev/null", "--no-triggers"}, args...)...)
	}
	link := filepath.Join(root, "usr/bin/tor")
	leads := func(want string) {
		t.Helper()
		at := link
		for range 3 {
			to, err := os.Readlink(at)
			if err != nil {
				break
			}
			at = filepath.Join(root, to)
		}
		if at != filepath.Join(root, want) {
			t.Errorf("/usr/bin/tor is %s, want %s", at, want)
		}
	}
	content := func(name, want string) {
		t.Helper()
		if got := string(read(t, filepath.Join(root, name))); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	dpkg("-i", debianTor(t, "1"))
	// The scripts of chive itself would speak to the systemd of this machine.
	dpkg("--unpack", "--no-act", chives[0])
	command(t, dir, "dpkg-deb", "-x", chives[0], root)
	dpkg("-i", tors[0])
	leads("usr/bin/chive")
	program := filepath.Join(root, "usr/bin/program", "tor") // the alternative's link is absolute
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../chive", program); err != nil {
		t.Fatal(err)
	}
	if got := command(t, dir, program, "--version"); !strings.HasPrefix(got, "Tor version 0.4.") {
		t.Errorf("tor --version: %s", got)
	}
	dpkg("-i", debianTor(t, "2"))
	leads("usr/bin/chive")
	content("usr/bin/tor.debian", "C tor 2")
	alternatives := []string{"--root", root, "--log", "/dev/null"}
	command(t, dir, "update-alternatives", append(alternatives, "--set", "tor", "/usr/bin/tor.debian")...)
	leads("usr/bin/tor.debian")
	dpkg("-i", tors[0]) // again, as an upgrade: the choice stays
	leads("usr/bin/tor.debian")
	command(t, dir, "update-alternatives", append(alternatives, "--auto", "tor")...)
	leads("usr/bin/chive")
	checkTorService(t, program)
	dpkg("-r", "chive-tor")
	leads("usr/bin/tor")
	content("usr/bin/tor", "C tor 2")
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/tor.debian")); err == nil {
		t.Error("tor.debian is left")
	}
}

// debianTor makes a package by the name of Debian's.
func debianTor(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"DEBIAN/control": "Package: tor\nVersion: " + version + "\nArchitecture: all\nMaintainer: " + maintainer + "\nDescription: a stand-in\n",
		"usr/bin/tor":    "C tor " + version,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(t.TempDir(), "tor.deb")
	command(t, dir, "dpkg-deb", "-b", "--root-owner-group", "-Znone", dir, deb)
	return deb
}

// torService does what Debian's unit tor@default does, in a network and directories of its own, and gets the program
// as its last argument.
const torService = `set -e
mount --make-rprivate /
for d in /run /var/lib/tor; do mount -t tmpfs none $d; done
install -m 02755 -o debian-tor -g debian-tor -d /run/tor
chown debian-tor:debian-tor /var/lib/tor
chmod 02700 /var/lib/tor
"$1" --defaults-torrc /usr/share/tor/tor-service-defaults-torrc -f /etc/tor/torrc --RunAsDaemon 0 --verify-config
exec "$1" --defaults-torrc /usr/share/tor/tor-service-defaults-torrc -f /etc/tor/torrc --RunAsDaemon 0
`

// checkTorService runs tor as Debian's unit does: with its torrc, user, sockets and cookie.
func checkTorService(t *testing.T, program string) {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "--net", "true").CombinedOutput(); err != nil || os.Geteuid() != 0 {
		t.Logf("SKIPPED: nobody has run Chive as Debian's service tor, for which one must be root: %v %s", err, out)
		return
	}
	u, err := user.Lookup("debian-tor")
	if _, missing := os.Stat("/usr/share/tor/tor-service-defaults-torrc"); err != nil || missing != nil {
		if os.Getenv("CHIVE_INTEROP") != "" {
			t.Error("Debian's tor is not installed")
		}
		t.Log("SKIPPED: Debian's tor is not installed, and nobody has run Chive in its place")
		return
	}
	told, err := os.MkdirTemp("", "chive-tor-") // the user must reach it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(told)
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(told, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	for path, mode := range map[string]os.FileMode{told: 0o755, filepath.Join(told, "s"): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	cmd := exec.Command("unshare", "--mount", "--net", "sh", "-c", torService, "sh", program)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(told, "s"))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		systemd.SetReadDeadline(time.Now()) // it says nothing more
	}()
	over := false
	end := func() error {
		over = true
		return <-ended
	}
	defer func() {
		if !over {
			cmd.Process.Kill()
			end()
		}
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	hears := func(want string) {
		t.Helper()
		b := make([]byte, 64)
		if n, err := systemd.Read(b); string(b[:n]) != want {
			t.Fatalf("systemd hears %q (%v), want %s", b[:n], err, want)
		}
	}
	hears("READY=1")
	inside := func(path string) string { return fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, path) }
	status := string(read(t, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)))
	for _, want := range []string{
		"\nUid:\t" + strings.Repeat(u.Uid+"\t", 3) + u.Uid + "\n", "\nGid:\t" + strings.Repeat(u.Gid+"\t", 3) + u.Gid + "\n",
		"\nCapEff:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("the process has kept more than its user has: no %q in\n%s", want, status)
		}
	}
	for path, mode := range map[string]os.FileMode{
		"/run/tor/control": 0o660 | os.ModeSocket, "/run/tor/socks": 0o666 | os.ModeSocket, "/run/tor/control.authcookie": 0o640, "/run/tor/tor.pid": 0o644,
	} {
		info, err := os.Stat(inside(path))
		if err != nil || info.Mode() != mode || strings.TrimSpace(command(t, "", "stat", "-c", "%g", inside(path))) != u.Gid {
			t.Errorf("%s: %v %v, want %v", path, info, err, mode)
		}
	}
	if pid := string(read(t, inside("/run/tor/tor.pid"))); pid != fmt.Sprintln(cmd.Process.Pid) {
		t.Errorf("tor.pid: %q", pid)
	}
	c, err := net.Dial("unix", inside("/run/tor/control"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	ask := func(command, want string) {
		t.Helper()
		fmt.Fprintf(c, "%s\r\n", command)
		for {
			l, err := in.ReadString('\n')
			if err != nil || len(l) > 3 && l[3] == ' ' {
				t.Errorf("%s: %q %v, want %s", strings.Fields(command)[0], l, err, want)
				return
			}
			if strings.HasPrefix(l, want) {
				for len(l) < 4 || l[3] != ' ' {
					if l, err = in.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				return
			}
		}
	}
	fmt.Fprintf(c, "AUTHENTICATE %s\r\n", hex.EncodeToString(read(t, inside("/run/tor/control.authcookie"))))
	if l, err := in.ReadString('\n'); l != "250 OK\r\n" {
		t.Fatal(l, err)
	}
	ask("GETINFO process/user", "250-process/user=debian-tor\r\n")
	ask("GETINFO config-file", "250-config-file=/etc/tor/torrc\r\n")
	cmd.Process.Signal(syscall.SIGHUP)
	ask("GETINFO net/listeners/socks", `250-net/listeners/socks="unix:/run/tor/socks"`)
	cmd.Process.Signal(syscall.SIGINT)
	hears("STOPPING=1")
	if err := end(); err != nil {
		t.Errorf("the end: %v", err)
	}
	for _, want := range []string{"Configuration was valid\n", "Opened Control listener connection (ready) on /run/tor/control"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(out.String(), "not read again") {
		t.Error("HUP failed")
	}
}
