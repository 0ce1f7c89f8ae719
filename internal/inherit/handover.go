package inherit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Kept are the ports of a process that stay open when their listeners close: what comes meanwhile waits in
// the kernel.
type Kept struct {
	ports   []heir
	removes []func() // of the files of unix sockets whose listeners have closed; the set's mu guards it
}

// Keep keeps all open ports, until Release or for the next program (Exec).
func Keep() (*Kept, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.kept != nil {
		return nil, fault.New(fault.Local, "the ports are kept already")
	}
	k := new(Kept)
	for _, o := range process.open {
		fd, open, err := duplicate(o.conn)
		if err != nil {
			k.closeAll()
			return nil, fault.New(fault.Local, "keep the port %s: %w", o.Addr, err)
		}
		if open {
			k.ports = append(k.ports, heir{o.port, fd, o.fixed})
		}
	}
	process.kept = k
	return k, nil
}

// Release closes the ports, unless their listeners are still open.
func (k *Kept) Release() {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.kept = nil
	for _, remove := range k.removes {
		remove()
	}
	k.closeAll()
}

func (k *Kept) closeAll() {
	for _, p := range k.ports {
		closeFD(p.FD)
	}
	k.ports = nil
}

// Exec has another program take the place of this one in the same process, with the ports. The first of
// args is its name. It returns only if that fails; then the ports are closed.
func (k *Kept) Exec(path string, args []string) error {
	text, err := json.Marshal(succession{os.Getpid(), Times() + 1, k.ports})
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, ownVar+"=") })
		err = k.exec(path, args, append(env, ownVar+"="+string(text)))
	}
	k.Release()
	return fault.New(fault.Local, "hand over to %s: %w", path, err)
}
