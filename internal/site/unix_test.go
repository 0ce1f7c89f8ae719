//go:build unix

package site

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSpecialFiles: what is no file is not found, and nothing waits for it or opens it.
func TestSpecialFiles(t *testing.T) {
	dir := tree(t)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "d", index), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(s)
	t.Chdir(dir)
	if err := syscall.Bind(s, &syscall.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	targets := []string{"/pipe", "/d/index.html", "/d/", "/socket"}
	if syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFCHR|0o644, 1<<8|5) == nil { // /dev/zero has these numbers
		targets = append(targets, "/device")
	}
	srv := open(t, dir, Options{})
	for _, target := range targets {
		if r := get(srv, "GET", target); r.StatusCode != 404 {
			t.Error(target, r.Status)
		}
	}
	// The pipe comes after the look at what it is: opening it does not wait, and it is seen again.
	f := srv.use()
	defer f.release()
	if _, _, err := f.openRegular("pipe"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a pipe that has taken the place of a file:", err)
	}
}

// TestUnreadable: a client hears that it may not, and no name.
func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := tree(t)
	if err := os.Chmod(filepath.Join(dir, "README"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "sub"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "sub"), 0o755)
	s := open(t, dir, Options{List: true})
	for _, target := range []string{"/README", "/sub/", "/sub/index.html"} {
		r := get(s, "GET", target)
		if got := body(r); r.StatusCode != 403 || got != "Forbidden\n" {
			t.Error(target, r.Status, got)
		}
	}
}
