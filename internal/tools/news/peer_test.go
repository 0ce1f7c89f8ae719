package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program returns a program for Linux that consists of string constants.
func program(constants ...string) []byte {
	data := []byte("\x01\x02" + strings.Join(append([]string{""}, constants...), "\x00") + "\x00\xff\xfe binary \x00")
	names := "\x00.rodata\x00.shstrtab\x00"
	const head, section = 64, 64
	var b bytes.Buffer
	le := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	le([]uint16{2, 62})
	le(uint32(1))
	le([]uint64{0, 0, uint64(head + len(data) + len(names))})
	le(uint32(0))
	le([]uint16{head, 0, 0, section, 3, 2})
	b.Write(data)
	b.WriteString(names)
	le(make([]byte, section))
	for _, s := range []struct {
		name, kind uint32
		at, size   int
	}{{1, 1, head, len(data)}, {9, 3, head + len(data), len(names)}} {
		le([]uint32{s.name, s.kind})
		le([]uint64{0, 0, uint64(s.at), uint64(s.size)})
		le([]uint32{0, 0})
		le([]uint64{1, 0})
	}
	return b.Bytes()
}

func TestConstants(t *testing.T) {
	got, err := constants(program("moria1 orport=9201", "abc", "a line\n", "Cons=1-2"))
	if want := []string{"moria1 orport=9201", "Cons=1-2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	for _, b := range []string{"", "#!/bin/sh\n", string(program("abcd"))[:70], strings.Replace(string(program("abcd")), ".rodata", ".xodata", 1)} {
		if got, err := constants([]byte(b)); err == nil {
			t.Errorf("%.20q: %q", b, got)
		}
	}
}

// fakePeer makes the directory that make peers-tor makes, with a script as program.
func fakePeer(t *testing.T, says, changes string, constants ...string) string {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"bin/tor":          fmt.Sprintf("#!/bin/sh\ncase $1 in --version) echo '%s';; --list-torrc-options) echo SocksPort; echo NewOption; echo __Own;; *) exit 1;; esac\n", says),
		"root/usr/bin/tor": string(program(constants...)),
		"changelog":        changes,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenPeer(t *testing.T) {
	p, err := openPeer(fakePeer(t, "Tor version 0.4.9.15.", small15, "Cons=1-2"))
	if err != nil || p.version != "0.4.9.15" || !slices.Equal(p.strings, []string{"Cons=1-2"}) || !slices.Equal(p.options, []string{"SocksPort", "NewOption", "__Own"}) || len(p.releases) != 2 {
		t.Errorf("%+v %v", p, err)
	}
	for says, changes := range map[string]string{"Tor version 0.4.9.14.": small15, "Chive": small15, "Tor version 0.4.9.15 (git-ab).": "no release"} {
		if _, err := openPeer(fakePeer(t, says, changes)); err == nil {
			t.Errorf("%q: no error", says)
		}
	}
	if _, err := openPeer(t.TempDir()); err == nil || !strings.Contains(err.Error(), "make peers-tor") {
		t.Error(err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, ok := range map[int64]bool{4: false, 5: true} {
		if _, err := readFile(path, most); (err == nil) != ok {
			t.Errorf("%d: %v", most, err)
		}
	}
}
