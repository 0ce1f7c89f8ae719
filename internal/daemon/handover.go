package daemon

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/inherit"
)

// Successor is the program that takes the place of this one in the same process: usually a newer version
// of the same file.
type Successor struct {
	Path  string   // its file; empty: it is not known
	Args  []string // its arguments, with its name first
	Trial []string // arguments with which it says whether it would start, and does nothing else
}

// maxTrial is how long a trial may take: it reads files.
const maxTrial = time.Minute

// maxConfined is how often programs may hand over that confine themselves: each confinement comes on top of
// those before, and Linux has room for sixteen.
const maxConfined = 15

// try runs the successor's trial. sandbox is the mode of this process.
func (s *Successor) try(ctx context.Context, sandbox string) error {
	if sandbox != sandboxOff && inherit.Times() >= maxConfined {
		return fault.New(fault.Local, "programs have handed over %d times in this process, and the kernel cannot confine it once more: start it again", inherit.Times())
	}
	if s.Path == "" {
		return fault.New(fault.Local, "the system does not say where this program's file is")
	}
	ctx, cancel := context.WithTimeout(ctx, maxTrial)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, s.Path)
	cmd.Args = append([]string{s.Args[0]}, s.Trial...)
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case sandbox != sandboxOff && errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Config, "the sandbox keeps the program from being started: with --sandbox, its file must be in a directory with the name bin or sbin: %w", fault.Why(err))
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return fault.New(fault.Config, "%s would not start: %w: %.500s", s.Path, fault.Why(err), lines[len(lines)-1])
}

// running adds the directory of the program's file to what may be read and run, so that a newer version of
// it can take over. If that is no directory of programs alone, it may have files that are nobody's business.
func (c confinement) running(program string) confinement {
	if dir := filepath.Dir(program); filepath.Base(dir) == "bin" || filepath.Base(dir) == "sbin" {
		c.read = append(c.read, dir)
	}
	return c
}

// handOver keeps the ports open for the successor.
func (p *Process) handOver() (err error) {
	p.kept, err = inherit.Keep()
	return err
}

// abandon closes the ports that were kept: the process is to end.
func (p *Process) abandon() {
	p.log.Info("told to stop: nothing is handed over")
	p.kept.Release()
	p.kept = nil
}

// succeed ends the program, and begins its successor in this process.
func (p *Process) succeed(err error) error {
	if p.kept == nil {
		return err
	}
	if err != nil {
		p.kept.Release()
		return fault.New(fault.KindOf(err), "not handed over: %w", err)
	}
	return p.kept.Exec(p.Successor.Path, p.Successor.Args)
}
