package site

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotOpened: what is no file is not even opened, since some devices act on that.
func TestNotOpened(t *testing.T) {
	dir := tree(t)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	for _, name := range []string{pipe, filepath.Join(dir, "README")} {
		if _, err := unix.InotifyAddWatch(watch, name, unix.IN_OPEN); err != nil {
			t.Skip(err)
		}
	}
	s := open(t, dir, Options{List: true})
	b := make([]byte, 4096)
	get(s, "GET", "/pipe")
	if n, err := unix.Read(watch, b); n > 0 || !errors.Is(err, unix.EAGAIN) {
		t.Error("the pipe was opened", n, err)
	}
	get(s, "GET", "/README")
	if n, err := unix.Read(watch, b); n <= 0 || err != nil {
		t.Error("this test does not see files that are opened", n, err)
	}
}

// TestNotRead: a directory is read only for a file that is there. To read a large one takes much longer than the answer.
func TestNotRead(t *testing.T) {
	dir := tree(t)
	link(t, "README", filepath.Join(dir, "list", "other~1"))
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, filepath.Join(dir, "list"), unix.IN_ACCESS); err != nil {
		t.Skip(err)
	}
	s := open(t, dir, Options{})
	b := make([]byte, 4096)
	get(s, "GET", "/list/made~1")
	if n, err := unix.Read(watch, b); n > 0 || !errors.Is(err, unix.EAGAIN) {
		t.Error("the directory was read", n, err)
	}
	get(s, "GET", "/list/other~1")
	if n, err := unix.Read(watch, b); n <= 0 || err != nil {
		t.Error("this test does not see directories that are read", n, err)
	}
}
