package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/pt"
)

// The values of --sandbox.
const (
	sandboxOff     = "off"
	sandboxAuto    = "auto"    // where the kernel can
	sandboxRequire = "require" // or not at all
)

// confinement lists the files that a confined process may still use.
type confinement struct {
	write []string // directories, with all that is in them
	read  []string // files and directories, which need not exist; programs in them may be run
}

// confinementOf lists a daemon's files: its data directory, the files that the
// system's libraries read, and the plugins that it runs.
func confinementOf(dataDir string, plugins []string) confinement {
	c := confinement{write: []string{dataDir}, read: []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/localtime", "/usr/share/zoneinfo"}}
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && real != "/etc/resolv.conf" {
		c.read = append(c.read, filepath.Dir(real))
	}
	for _, s := range plugins {
		if l, err := pt.ParseTransportLine(s); err == nil && l.Path != "" {
			// A plugin has the confinement of the process that runs it, and needs
			// the system's programs and libraries.
			c.read = append(c.read, l.Path, "/usr", "/lib", "/lib64", "/bin", "/etc/ssl", "/proc", "/sys", "/dev")
		}
	}
	return c
}

// reading adds the directories of files that options name: the directories,
// because an editor replaces a file by a new one.
func (c confinement) reading(files ...string) confinement {
	for _, f := range files {
		if f != "" {
			c.read = append(c.read, filepath.Dir(f))
		}
	}
	return c
}

// logging adds the directory of the log's file, in which SIGHUP makes a new one.
func (c confinement) logging(file string) confinement {
	if file != "" {
		c.write = append(c.write, filepath.Dir(file))
	}
	return c
}

// sockets adds the directories of the sockets among listening addresses: a socket's file is
// removed at the end.
func (c confinement) sockets(addrs ...string) confinement {
	for _, a := range addrs {
		if path, ok := strings.CutPrefix(a, "unix:"); ok {
			c.write = append(c.write, filepath.Dir(path))
		}
	}
	return c
}

// minABI is the version of Landlock, of Linux 6.2, from which on it covers all
// ways to change a file.
const minABI = 3

// confine confines the process permanently. It returns an error only if mode
// requires confinement and it is not possible.
func (c confinement) confine(mode string, log *slog.Logger) error {
	return c.confineBy(mode, log, landlockABI(), c.landlock)
}

func (c confinement) confineBy(mode string, log *slog.Logger, abi int, restrict func() error) error {
	if mode == sandboxOff {
		return nil
	}
	var err error
	switch {
	case abi < 1:
		err = fault.New(fault.Config, "sandbox: this kernel has no Landlock, or it is switched off")
	case abi < minABI && mode == sandboxRequire:
		err = fault.New(fault.Config, "sandbox: this kernel's Landlock has version %d, and does not cover all that it should: 3 (Linux 6.2) does", abi)
	default:
		err = restrict()
	}
	if err == nil {
		log.Info("confined: files elsewhere are out of reach", "landlock", abi, "write", strings.Join(c.write, " "), "read", strings.Join(c.read, " "))
		return nil
	}
	if mode == sandboxRequire {
		return err
	}
	log.Warn("not confined", "err", err)
	return nil
}

// existing returns the paths that exist, by kind.
func existing(paths []string) (files, dirs []string) {
	for _, p := range paths {
		st, err := os.Stat(p)
		switch {
		case err != nil:
		case st.IsDir():
			dirs = append(dirs, p)
		default:
			files = append(files, p)
		}
	}
	return files, dirs
}
