package deploy

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// elfFile is the head of a program, with one program header.
func elfFile(machine elf.Machine, kind elf.Type, header elf.ProgType) []byte {
	h := elf.Header64{Type: uint16(kind), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, h)
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(header)})
	return b.Bytes()
}

func fakeProgram(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, elfFile(elf.EM_AARCH64, elf.ET_EXEC, elf.PT_LOAD), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestProgramOfImage: what cannot run in an empty image is refused before anything is written that names it.
func TestProgramOfImage(t *testing.T) {
	for _, c := range []struct {
		doc            []byte
		platform, fail string
	}{
		{elfFile(elf.EM_X86_64, elf.ET_EXEC, elf.PT_LOAD), "linux/amd64", ""},
		{elfFile(elf.EM_AARCH64, elf.ET_DYN, elf.PT_LOAD), "linux/arm64", ""},
		{elfFile(elf.EM_X86_64, elf.ET_EXEC, elf.PT_INTERP), "", "CGO_ENABLED=0"},
		{elfFile(elf.EM_X86_64, elf.ET_REL, elf.PT_LOAD), "", "processor"},
		{elfFile(elf.EM_AVR, elf.ET_EXEC, elf.PT_LOAD), "", "processor"},
		{[]byte("#!/bin/sh\n"), "", "Linux"},
		{nil, "", "Linux"},
	} {
		got, err := checkProgram(bytes.NewReader(c.doc))
		if got != c.platform || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%.20q: %s, %v", c.doc, got, err)
		}
	}
}

// TestImage: an image is called after the program's content or as the user says, and the program is copied as it is.
func TestImage(t *testing.T) {
	program := fakeProgram(t)
	names := map[string]bool{}
	for range 2 {
		e := &Export{Program: program, Out: t.TempDir()}
		p, err := e.image()
		if err != nil {
			t.Fatal(err)
		}
		names[p.name] = true
		got, err := os.ReadFile(filepath.Join(e.Out, programName))
		want, _ := os.ReadFile(program)
		if err != nil || !bytes.Equal(got, want) {
			t.Error("another program:", err)
		}
		if info, err := os.Stat(filepath.Join(e.Out, programName)); err != nil || info.Mode().Perm()&0o555 != 0o555 {
			t.Error(info, err)
		}
		again := &Export{Program: filepath.Join(e.Out, programName), Out: e.Out} // the copy, onto itself
		if p2, err := again.image(); err != nil || p2.name != p.name {
			t.Error(p2, err)
		}
	}
	if len(names) != 1 {
		t.Error("two names of one program:", names)
	}
	for _, name := range []string{"a", "registry.example:5000/lab/chivelab:1.0_A", "chivelab@sha256:" + strings.Repeat("0a", 32)} {
		if p, err := (&Export{Program: program, Out: t.TempDir(), Image: name}).image(); err != nil || p.name != name {
			t.Error(p, err)
		}
	}
	for _, name := range []string{"A", "a b", "a;b", "$(a)", "a:", "-a", "a\n", "a@sha256:0", strings.Repeat("a", 256)} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := (&Export{Program: program, Out: out, Image: name}).image(); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("something was written")
		}
	}
	if _, err := (&Export{Program: program + "x", Out: t.TempDir()}).image(); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
