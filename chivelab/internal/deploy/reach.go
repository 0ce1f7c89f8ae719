package deploy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// Reach says how ssh reaches a board. What is empty is ssh's own choice.
type Reach struct {
	User      string `json:"user,omitempty"`
	Host      string `json:"host,omitempty"` // default: the node's address
	Port      int    `json:"port,omitempty"`
	Identity  string `json:"identity,omitempty"`  // file with the key
	Arch      string `json:"arch,omitempty"`      // as Go calls it; default: the board is asked
	Directory string `json:"directory,omitempty"` // on the board, for what a run has there; default: the user's home
}

// reachKeys are an inventory's keys of it.
var reachKeys = []string{"user", "host", "port", "identity", "arch", "directory"}

// Arches are the processors of boards, as Go calls them.
var Arches = []string{"amd64", "arm64", "arm"}

// What the values may be. None begins with a dash, which a program would take for an option, and none has what a shell
// or ssh's own settings would read as something else.
var (
	userForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	hostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$`)
	dirForm  = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)
	fileForm = regexp.MustCompile(`^[^\pC"\\%$]+$`)
)

// take takes over a key of a node.
func (r *Reach) take(inv *Inventory, key string, v any) (err error) {
	if key == "port" {
		n, ok := v.(int64)
		if !ok || n < 1 || n > 65535 {
			return fault.New(fault.Config, "port: %v is no number from 1 to 65535", v)
		}
		r.Port = int(n)
		return nil
	}
	s, err := text(key, v)
	if err != nil {
		return err
	}
	if s == "" {
		return fault.New(fault.Config, "%s: it is empty", key)
	}
	switch key {
	case "user":
		r.User = s
	case "host":
		r.Host = s
	case "identity":
		if r.Identity, err = inv.fileName(key, s); err != nil {
			return err
		}
	case "arch":
		r.Arch = s
	case "directory":
		r.Directory = s
	}
	return r.check()
}

// check checks all that is there, wherever it comes from.
func (r *Reach) check() error {
	switch {
	case r.User != "" && !userForm.MatchString(r.User):
		return fault.New(fault.Config, "user: %q is no name of a user: letters, digits, dots, dashes and underscores, 64 at most", r.User)
	case r.Host != "" && !hostForm.MatchString(r.Host):
		return fault.New(fault.Config, "host: %q is no name and no address of a host", r.Host)
	case r.Port < 0 || r.Port > 65535:
		return fault.New(fault.Config, "port: %d is no number from 1 to 65535", r.Port)
	case r.Identity != "" && !(filepath.IsAbs(r.Identity) && fileForm.MatchString(r.Identity)):
		return fault.New(fault.Config, "identity: %q is no name of a file that ssh can be told", r.Identity)
	case r.Arch != "" && !slices.Contains(Arches, r.Arch):
		return fault.New(fault.Config, "arch: %w", options.NotOneOf(r.Arch, Arches))
	case r.Directory != "" && (!dirForm.MatchString(r.Directory) || path.Clean(r.Directory) != r.Directory):
		return fault.New(fault.Config, "directory: %q is no path from / of letters, digits, dots, dashes and underscores", r.Directory)
	}
	return nil
}

// fileName returns the whole path of a file here that an inventory names: relative to the inventory, or to "~/".
func (inv *Inventory) fileName(key, name string) (string, error) {
	if !fileForm.MatchString(name) {
		return "", fault.New(fault.Config, "%s: %q has characters that ssh's settings read as something else", key, name)
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fault.New(fault.Config, "%s: %w", key, err)
		}
		name = filepath.Join(home, rest)
	} else if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(inv.File), name)
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return "", fault.New(fault.Config, "%s: %w", key, err)
	}
	if !fileForm.MatchString(whole) {
		return "", fault.New(fault.Config, "%s: %q has characters that ssh's settings read as something else", key, whole)
	}
	return whole, nil
}
