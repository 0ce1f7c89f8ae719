package daemon

import (
	"net"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/site"
)

// dirPort is the virtual port at which a service shows a folder of files.
const dirPort = 80

// folder is files that an onion service shows itself.
type folder struct {
	dir string
	opt site.Options
}

// secrets returns the files and directories with keys and passwords that a client's options name, and what the client keeps.
func secrets(cfg *chive.Config) []string {
	var out []string
	if cfg.DataDir != "" {
		out = append(out, cfg.DataDir)
	}
	if cfg.ClientOnionAuthDir != "" {
		out = append(out, cfg.ClientOnionAuthDir)
	}
	for _, s := range append([]string{cfg.Proxy}, cfg.ClientOnionAuth...) {
		if file, ok := strings.CutPrefix(s, "@"); ok {
			out = append(out, file)
		}
	}
	return out
}

// checkFolders refuses folders that cannot be shown, and those through which clients could read keys: those of
// services, and those of the client. A folder inside a directory of keys, or of the client's state, is refused, too:
// what Chive writes there, or an operator moves there, would be shown one day.
func checkFolders(cfg *chive.Config, all []hosting) error {
	for _, h := range all {
		if h.folder == nil {
			continue
		}
		if err := site.Check(h.folder.dir); err != nil {
			return fault.New(fault.Config, "onion service: dir: %w", err)
		}
		private := secrets(cfg)
		for _, other := range all {
			private = append(private, other.KeyDir)
		}
		for _, p := range private {
			if in, err := within(h.folder.dir, p); err != nil {
				return err
			} else if in {
				return fault.New(fault.Config, "onion service: dir: %s is in the folder %s, where everybody could read it", p, h.folder.dir)
			}
			if in, err := within(p, h.folder.dir); err != nil {
				return err
			} else if in {
				return fault.New(fault.Config, "onion service: dir: the folder %s is in %s, which is for what nobody else may read: everybody could read the folder", h.folder.dir, p)
			}
		}
	}
	return nil
}

// within reports whether a path is in a folder, or is the folder. The path need not exist.
func within(folder, path string) (bool, error) {
	dir, err := real(folder)
	if err != nil {
		return false, err
	}
	at, err := real(path)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(dir, at)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), nil
}

// real returns the absolute path without links, as far as it exists.
func real(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fault.Wrap(fault.Local, err)
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		if r, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(r, rest), nil
		}
		if at == filepath.Dir(at) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// openFolder has a service show its folder of files, if it has one. The caller has the mutex.
func (o *onions) openFolder(h *onionHost) error {
	if h.folder == nil {
		return nil
	}
	s, err := site.New(h.folder.dir, h.folder.opt, o.log)
	if err != nil {
		return err
	}
	h.site = s
	failed := func(err error) {
		o.log.Error("an onion service no longer shows its folder of files", "service", h.label, "err", err)
	}
	o.calls.Go(panics.Contain(o.log, failed, func() {
		if err := s.Serve(h.onionListener, circuitOf); err != nil {
			failed(err)
		}
	}))
	return nil
}

// circuitOf returns the circuit of a connection: connections over one are of one client.
func circuitOf(c net.Conn) uint64 {
	if c, ok := c.(*chive.OnionConn); ok {
		return c.Circuit()
	}
	return 0
}

// changeFolder shows another folder, or opens the same one again.
func (h *onionHost) changeFolder(to *folder) error {
	if h.site == nil {
		return nil
	}
	return h.site.Change(to.dir, to.opt)
}
