package deploy

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

// Programs are the builds of this program for boards.
type Programs struct {
	One    string   // for all boards; "": what follows
	Dir    string   // has linux-ARCH/chivelab, as "make boards" makes them
	Own    string   // this program, for boards with this machine's processor, if Dir has none
	Runner []string // a program on the boards that runs One there, as an emulator does

	mu   sync.Mutex        // guards what follows
	sums map[string]string // SHA-256 of files that were read
}

// machines are the processors as boards and programs call them.
var machines = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv6l": "arm", "armv7l": "arm", "armv8l": "arm"}

// file returns the program for a processor, and checks that it is one.
func (p *Programs) file(arch string) (string, error) {
	name := p.One
	if name == "" {
		name = filepath.Join(p.Dir, "linux-"+arch, "chivelab")
		if _, err := os.Stat(name); err != nil && runtime.GOOS == "linux" && runtime.GOARCH == arch {
			name = p.Own
		} else if err != nil {
			return "", fault.New(fault.Config, "there is no program for %s, which \"make boards\" makes: %w", arch, err)
		}
	}
	f, err := elf.Open(name)
	if err != nil {
		return "", fault.New(fault.Config, "%s is no program for Linux: %w", name, err)
	}
	defer f.Close()
	is := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm"}[f.Machine]
	if is != arch && len(p.Runner) == 0 {
		return "", fault.New(fault.Config, "%s is built for %v, and the board is %s", name, f.Machine, arch)
	}
	return name, nil
}

// sum returns the SHA-256 of a file, in hex.
func (p *Programs) sum(name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sums[name]; s != "" {
		return s, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fault.Wrap(fault.Local, err)
	}
	if p.sums == nil {
		p.sums = map[string]string{}
	}
	p.sums[name] = hex.EncodeToString(h.Sum(nil))
	return p.sums[name], nil
}
