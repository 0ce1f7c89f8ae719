package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Scripts of boards: POSIX shell, each one line, with no more than what busybox has.
const (
	// Makes the directory $2 below $1, or below the user's home, and says what the board is.
	probeScript = `set -e; umask 077; if test -n "$1"; then cd "$1"; else cd; fi; mkdir "$2"; cd "$2"; mkdir state; ` +
		`pwd -P; uname -s; uname -m; date +%s; df -Pk . | tail -n 1`
	// Copies the program.
	copyScript = `set -e; umask 077; cd "$1"; cat >chivelab; chmod 700 chivelab; sha256sum <chivelab`
	putScript  = `set -e; umask 077; cd "$1"; cat >"$2"`
	getScript  = `set -e; cd "$1"; cat "$2"`
	tailScript = `set -e; cd "$1"; tail -c 60000 "$2"`
	execScript = `cd "$1" && shift && exec "$@"`
	// Ends what runs of the directories $2 below $1, and removes them. $2 may be a pattern. It says what it removes. The
	// processes are those whose command line names the directory's program: a number kept in a file could be another
	// process's by now. The script's own command line has the directory's name only in two parts.
	removeScript = `if test -n "$1"; then test -d "$1" || exit 0; cd "$1"; else cd; fi || exit 1; d=$(pwd -P); r=0; for at in "$d"/$2; do ` +
		`test -d "$at" && test -O "$at" || continue; u=${at##*/.}; m=; test -r "$at/manager" && read -r m <"$at/manager"; ` +
		`case $m in user) systemctl --user stop "$u.service" 2>/dev/null;; system) systemctl stop "$u.service" 2>/dev/null;; esac; ` +
		`k=TERM; i=0; while p=$(echo "$at/chivelab" | grep -lFf - /proc/[0-9]*/cmdline 2>/dev/null | sed "s/[^0-9]//g"); test -n "$p"; do ` +
		`kill -$k $p 2>/dev/null; i=$((i+1)); if test $i -gt 50; then k=KILL; fi; if test $i -gt 100; then echo "$at still runs" >&2; r=1; break; fi; ` +
		`sleep 0.1 2>/dev/null || sleep 1; done; rm -rf -- "$at" && echo "$at" || r=1; done; exit $r`
)

// runPrefix begins the names of runs' directories on boards, and of units of systemd without the dot.
const runPrefix = ".chivelab-deploy-"

// spare is how much room a board needs beside the program: keys, the directory's documents, and results.
const spare = 64 << 20

// copyRate is the slowest connection that a program is copied over.
const copyRate = 50_000 // bytes a second

// sshBoard is a machine that ssh reaches.
type sshBoard struct {
	remote
	node     *Node
	inv      *Inventory
	programs *Programs
	id       string // of the run, 16 hex digits

	at     string        // the directory there; "": it was not made
	arch   string        // of the board
	ahead  time.Duration // of its clock before this machine's
	maybe  bool          // something may be there
	runner []string
}

func (b *sshBoard) dir() string { return b.at }

// base is the name of the directory.
func (b *sshBoard) base() string { return runPrefix + b.id + "-" + b.node.Name }

func (b *sshBoard) prepare(ctx context.Context) error {
	if err := b.probe(ctx); err != nil {
		return err
	}
	return b.copy(ctx)
}

// probe makes the directory, and learns what the board is.
func (b *sshBoard) probe(ctx context.Context) error {
	asked := time.Now()
	out, err := b.do(ctx, order{script: probeScript, args: []string{b.reach.Directory, b.base()}, time: quickTime + connectTime*time.Second})
	b.maybe = err == nil || !errors.Is(err, errUnreached)
	if err != nil {
		return err
	}
	now := asked.Add(time.Since(asked) / 2)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	odd := func() error {
		return fault.New(fault.Protocol, "the board says of itself %q", tail(out))
	}
	if len(lines) != 5 || path.Base(lines[0]) != b.base() || !path.IsAbs(lines[0]) {
		return odd()
	}
	if !dirForm.MatchString(lines[0]) { // it would have to go through systemd, too
		return fault.New(fault.Config, "the user's home is %q: set directory to a path of letters, digits, dots, dashes and underscores", clean(path.Dir(lines[0])))
	}
	b.at = lines[0]
	clock, err := strconv.ParseInt(strings.TrimSpace(lines[3]), 10, 64)
	if err != nil {
		return odd()
	}
	b.ahead = time.Unix(clock, 0).Sub(now)
	if b.arch, err = b.processor(lines[1], lines[2]); err != nil {
		return err
	}
	df := strings.Fields(lines[4]) // device, blocks, used, free: KiB
	if len(df) < 6 {
		return odd()
	}
	free, err := strconv.ParseInt(df[3], 10, 64)
	if err != nil || free < 0 {
		return odd()
	}
	name, err := b.programs.file(b.arch)
	if err != nil {
		return err
	}
	st, err := os.Stat(name)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if need := st.Size() + spare; free < need>>10 {
		return fault.New(fault.Resource, "its disk is full: %s has %d MiB free, and a node needs %d MiB", path.Dir(b.at), free>>10, need>>20)
	}
	return nil
}

// processor returns the board's processor as Go calls it.
func (b *sshBoard) processor(kernel, machine string) (string, error) {
	want, is := b.reach.Arch, machines[machine]
	switch {
	case kernel != "Linux":
		return "", fault.New(fault.Config, "the board has %q, not Linux", clean(kernel))
	case len(b.programs.Runner) > 0 && want != "": // the emulator's business
		return want, nil
	case is == "":
		return "", fault.New(fault.Config, "the board's processor is %q, and there are programs for %v", clean(machine), Arches)
	case want != "" && want != is:
		return "", fault.New(fault.Config, "the inventory says arch = %q, and the board is %s (%s)", want, is, machine)
	}
	return is, nil
}

// copy brings the program there.
func (b *sshBoard) copy(ctx context.Context) error {
	name, err := b.programs.file(b.arch)
	if err != nil {
		return err
	}
	sum, err := b.programs.sum(name)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	longest := quickTime + time.Duration(st.Size()/copyRate)*time.Second
	out, err := b.do(ctx, order{script: copyScript, args: []string{b.at}, input: f, time: longest})
	if err != nil {
		return fault.New(fault.KindOf(err), "copy the program: %w", err)
	}
	if got, _, _ := strings.Cut(string(out), " "); got != sum {
		return fault.New(fault.Local, "copy the program: its SHA-256 is %q there, and %s here", clean(got), sum)
	}
	args := []string{"deploy", "node", "check"}
	for _, a := range b.inv.listens(b.node) {
		args = append(args, "--listen", a.String())
	}
	_, err = b.run(ctx, args)
	return err
}

// command is the program with arguments, as the board runs it.
func (b *sshBoard) command(args []string) []string {
	return append(append(append([]string{}, b.runner...), path.Join(b.at, "chivelab")), args...)
}

func (b *sshBoard) exec(args []string) order {
	return order{script: execScript, args: append([]string{b.at}, b.command(args)...)}
}

func (b *sshBoard) run(ctx context.Context, args []string) ([]byte, error) {
	o := b.exec(args)
	o.time = readyTime
	return b.do(ctx, o)
}

func (b *sshBoard) put(ctx context.Context, name string, data []byte) error {
	_, err := b.do(ctx, order{script: putScript, args: []string{b.at, name}, input: bytes.NewReader(data), time: quickTime})
	return err
}

// get fetches a file whole, or the end of what a program has printed.
func (b *sshBoard) get(ctx context.Context, name string) ([]byte, error) {
	o := order{script: getScript, args: []string{b.at, name}, most: maxResult, time: quickTime + maxResult/copyRate*time.Second}
	if name == outputName {
		o.script, o.most, o.time = tailScript, 0, quickTime
	}
	return b.do(ctx, o)
}

func (b *sshBoard) start(ctx context.Context, args []string) error {
	o := b.exec(append([]string{"deploy", "node", "start", "--dir", b.at, "--unit", strings.TrimPrefix(b.base(), "."),
		"--self", strings.Join(b.command(nil), " "), "--"}, b.command(args)...))
	o.time = quickTime + startTime
	_, err := b.do(ctx, o)
	return err
}

func (b *sshBoard) ready(ctx context.Context) error { return b.await(ctx, "--ready") }

// wait asks again if the connection broke: the program runs on without it.
func (b *sshBoard) wait(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := b.await(ctx)
		if !fault.Is(err, fault.Network) || ctx.Err() != nil || tries == waitTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(waitPause):
		}
	}
}

// How often and when wait asks again.
const (
	waitTries = 5
	waitPause = 5 * time.Second
)

// await waits, there, for the program to be ready or to end. It ends with the connection, as its input does.
func (b *sshBoard) await(ctx context.Context, args ...string) error {
	o := b.exec(append([]string{"deploy", "node", "await", "--dir", b.at}, args...))
	alive, end, err := os.Pipe()
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer alive.Close()
	defer end.Close()
	o.input = alive
	_, err = b.do(ctx, o)
	return err
}

func (b *sshBoard) remove(ctx context.Context) error {
	defer b.leave(ctx)
	if !b.maybe {
		return nil
	}
	_, err := b.removeAll(ctx, b.base())
	if err != nil {
		return fault.New(fault.KindOf(err), "remove what is there: %w", err)
	}
	b.maybe = false
	return nil
}

// removeAll removes the directories of a pattern, and what runs of them. It returns their names.
func (r *remote) removeAll(ctx context.Context, pattern string) ([]string, error) {
	out, err := r.do(ctx, order{script: removeScript, args: []string{r.reach.Directory, pattern}, time: quickTime + connectTime*time.Second})
	var removed []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			removed = append(removed, clean(line))
		}
	}
	return removed, err
}

// newRemote returns the way to a node's board.
func newRemote(inv *Inventory, n *Node, sockets string) remote {
	reach := n.Reach
	if reach.Host == "" {
		reach.Host = n.Address.String()
	}
	return remote{reach: reach, name: n.Name, knownHosts: inv.KnownHosts, sockets: sockets}
}

// where is how messages call a board.
func (r *remote) where() string {
	s := r.reach.Host
	if r.reach.User != "" {
		s = r.reach.User + "@" + s
	}
	if r.reach.Port != 0 {
		s += fmt.Sprintf(" port %d", r.reach.Port)
	}
	return s
}

// socketsIn makes the directory of connections' sockets.
func socketsIn(dir string) (string, error) {
	s := filepath.Join(dir, "ssh")
	return s, fault.Wrap(fault.Local, os.MkdirAll(s, 0o700))
}
