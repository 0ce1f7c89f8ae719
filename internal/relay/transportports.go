package relay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// portsFile, in the data directory, has the addresses of transports that chose their
// ports themselves. Users have them in their bridge lines, so the transports must listen
// there after a restart too.
const portsFile = "transport_ports.json"

// maxPortsFile bounds the file, in bytes.
const maxPortsFile = 64 << 10

// chosenPorts keeps the file.
type chosenPorts struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex                // guards what follows
	addrs map[string]netip.AddrPort // by transport
}

func loadPorts(dataDir string, log *slog.Logger) *chosenPorts {
	p := &chosenPorts{path: filepath.Join(dataDir, portsFile), log: log}
	text, err := atomicfile.Read(p.path, maxPortsFile)
	if err == nil {
		err = json.Unmarshal(text, &p.addrs)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the ports that transports chose cannot be read: they choose others, and bridge lines change", "err", err)
	}
	if err != nil || p.addrs == nil {
		p.addrs = map[string]netip.AddrPort{}
	}
	return p
}

// bind adds the chosen ports to those of the configuration.
func (p *chosenPorts) bind(configured map[string]netip.AddrPort) map[string]netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := maps.Clone(p.addrs)
	maps.Copy(out, configured)
	return out
}

// chose keeps an address.
func (p *chosenPorts) chose(transport string, addr netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addrs[transport] = addr
	text, err := json.MarshalIndent(p.addrs, "", "\t")
	if err == nil {
		err = atomicfile.Write(p.path, append(text, '\n'), atomicfile.Secret)
	}
	if err != nil {
		p.log.Warn("the port of a transport is not on the disk: it may change with the next start", "transport", transport, "err", fault.Wrap(fault.Local, err))
	}
}
