package namespace

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hidden are directories with sockets by which libraries of the program would ask services of the
// machine for names: nscd, systemd-resolved, Avahi.
var hidden = []string{"/run/nscd", "/var/run/nscd", "/run/systemd/resolve", "/run/systemd/resolve.hook", "/run/avahi-daemon", "/var/run/avahi-daemon"}

// netDevices is where sysfs has the network devices of the machine. A program needs none of them, and their addresses
// tell the machine apart from all others. What stands there are links to the devices.
const netDevices = "/sys/class/net"

// toHide returns the directories that become empty.
func toHide() []string {
	out := slices.Clone(hidden)
	links, _ := filepath.Glob(netDevices + "/*") // the pattern is good
	for _, l := range links {
		if at, err := filepath.EvalSymlinks(l); err == nil && at != l {
			out = append(out, filepath.Dir(at))
		}
	}
	return append(out, netDevices) // at last: the links lead through it
}

// stage is where files are made before they take the places of others. Nothing is there at the end.
const stage = "/proc"

// mounts makes the program's view of the files: the machine's, with other ways to look names up.
func mounts(nameserver netip.Addr) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	const resolv = "/etc/resolv.conf"
	at, err := filepath.EvalSymlinks(resolv)
	if err != nil {
		return fmt.Errorf("programs read the name server from %s, so it must be there: %v", resolv, err) // not %w: no kernel denies it
	}
	files := map[string]string{at: fmt.Sprintf("nameserver %s\noptions timeout:120 attempts:1\n", nameserver)}
	const nss = "/etc/nsswitch.conf"
	if text, err := os.ReadFile(nss); err == nil {
		if at, err := filepath.EvalSymlinks(nss); err == nil {
			files[at] = onlyDNS(string(text))
		}
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	made := map[string]string{}
	for at, text := range files {
		made[at] = filepath.Join(stage, fmt.Sprint(len(made)))
		if err := os.WriteFile(made[at], []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a file: %w", err)
		}
		if err := os.Chmod(made[at], 0o644); err != nil { // whatever the umask
			return fmt.Errorf("write a file: %w", err)
		}
	}
	if err := hide(files); err != nil {
		return err
	}
	for at, file := range made {
		if err := unix.Mount(file, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("put a file over %s: %w", at, err)
		}
		if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", at, err)
		}
	}
	if err := unix.Unmount(stage, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount a tmpfs: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// hide puts empty directories over those that the program must not see. A file that is to be replaced and is in one of
// them, such as that to which /etc/resolv.conf leads, stays there, empty.
func hide(files map[string]string) error {
	var done []string
	for _, dir := range toHide() {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || slices.Contains(done, dir) {
			continue // it is not there
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			continue
		}
		done = append(done, dir)
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
		for at := range files {
			if !strings.HasPrefix(at, dir+"/") {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return fmt.Errorf("hide %s: %w", dir, err)
			}
			if err := os.WriteFile(at, nil, 0o644); err != nil {
				return fmt.Errorf("hide %s: %w", dir, err)
			}
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return nil
}

// onlyDNS returns an nsswitch.conf by which hosts are looked up in files and in the DNS only.
func onlyDNS(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, ":"); !ok || !slices.Contains([]string{"hosts", "networks"}, strings.TrimSpace(key)) {
			out.WriteString(line)
		}
	}
	if s := out.String(); s != "" && !strings.HasSuffix(s, "\n") {
		out.WriteByte('\n')
	}
	out.WriteString("hosts: files dns\nnetworks: files\n")
	return out.String()
}
