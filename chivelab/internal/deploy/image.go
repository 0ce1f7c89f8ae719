package deploy

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// image is what nodes run in containers.
type image struct {
	name     string
	platform string // as "linux/arm64"
}

// platforms are those that a program can be for.
var platforms = map[elf.Machine]string{
	elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64", elf.EM_ARM: "linux/arm/v7", elf.EM_386: "linux/386", elf.EM_RISCV: "linux/riscv64",
}

// takeProgram copies a program that runs in an empty image, and calls the image after its content: so a machine that
// has an older image of the same name cannot take that one.
func takeProgram(from, to string) (image, error) {
	f, err := os.Open(from)
	if err != nil {
		return image{}, fault.New(fault.Config, "--program: %w", err)
	}
	defer f.Close()
	platform, err := checkProgram(f)
	if err != nil {
		return image{}, fault.New(fault.Config, "--program: %s %w", from, err)
	}
	sum := sha256.New()
	if err := atomicfile.Fill(to, 0o755, func(w io.Writer) error {
		_, err := io.Copy(io.MultiWriter(w, sum), f)
		return fault.Wrap(fault.Local, err)
	}); err != nil {
		return image{}, err
	}
	return image{name: "chivelab:" + hex.EncodeToString(sum.Sum(nil)[:6]), platform: platform}, nil
}

// checkProgram tells whether a program runs on Linux without any other file, and on which processor.
func checkProgram(r io.ReaderAt) (platform string, err error) {
	p, err := elf.NewFile(r)
	if err != nil {
		return "", fault.New(fault.Config, "is no program for Linux")
	}
	platform, ok := platforms[p.Machine]
	if !ok || p.Type != elf.ET_EXEC && p.Type != elf.ET_DYN {
		return "", fault.New(fault.Config, "is no program for a known processor")
	}
	for _, s := range p.Progs {
		if s.Type == elf.PT_INTERP {
			return "", fault.New(fault.Config, "needs shared libraries, which the image does not have; build it with CGO_ENABLED=0")
		}
	}
	return platform, nil
}
