package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Bounds of what is read of the peer: several times what tor 0.4.9.15 has.
const (
	maxProgram = 64 << 20
	maxText    = 16 << 20
	maxRun     = time.Minute
)

// peer is a tor that make peers-tor has put into a directory.
type peer struct {
	version  string   // such as "0.4.9.15"
	strings  []string // the constants of its program
	options  []string // that it has in a torrc
	releases []release
}

// versionLine is the first line of tor --version.
var versionLine = regexp.MustCompile(`^Tor version ([0-9]+(?:\.[0-9]+){3}(?:-[a-z]+)?)[ .]`)

// openPeer reads a tor. Its program and its changelog must be of the same release.
func openPeer(dir string) (*peer, error) {
	said, err := ask(filepath.Join(dir, "bin/tor"), "--version")
	if err != nil {
		return nil, fmt.Errorf("%w (make peers-tor puts one there)", err)
	}
	m := versionLine.FindStringSubmatch(said)
	if m == nil {
		return nil, fmt.Errorf("tor --version says %.60q, which names no version", said)
	}
	p := &peer{version: m[1]}
	if said, err = ask(filepath.Join(dir, "bin/tor"), "--list-torrc-options"); err != nil {
		return nil, err
	}
	p.options = strings.Fields(said)
	program, err := readFile(filepath.Join(dir, "root/usr/bin/tor"), maxProgram)
	if err != nil {
		return nil, err
	}
	if p.strings, err = constants(program); err != nil {
		return nil, fmt.Errorf("the program of tor: %w", err)
	}
	text, err := readFile(filepath.Join(dir, "changelog"), maxText)
	if err != nil {
		return nil, err
	}
	p.releases, err = changelog(string(text))
	if err == nil && p.releases[0].version != p.version {
		err = fmt.Errorf("the changelog is of %s and the program of %s", p.releases[0].version, p.version)
	}
	return p, err
}

// ask runs the peer's program and returns what it writes.
func ask(program string, arg ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxRun)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, arg...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(arg, " "), err)
	}
	return string(out), nil
}

// readFile reads a file of a bounded size.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return b, err
}

// constants returns the string constants of a program for Linux: what stands between zero
// bytes in its read-only data and is printable ASCII.
func constants(program []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	s := f.Section(".rodata")
	if s == nil || s.Size > maxProgram {
		return nil, fmt.Errorf("it has no read-only data of a usual size")
	}
	data, err := s.Data()
	if err != nil {
		return nil, err
	}
	var all []string
	for b := range bytes.SplitSeq(data, []byte{0}) {
		if len(b) >= 4 && !bytes.ContainsFunc(b, func(c rune) bool { return c < ' ' || c > '~' }) {
			all = append(all, string(b))
		}
	}
	return all, nil
}
