package proc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestOfThisProcess(t *testing.T) {
	before, err := Of(os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The clock under test says when enough has been burnt: this ends after 5 ms
	// of CPU time, or never if the clock stands still.
	deadline := time.Now().Add(time.Minute)
	for x := 0; ; x++ {
		if x%1000 != 0 {
			continue
		}
		after, err := Of(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after.CPU > before.CPU+5*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("CPU time stands at %v", after.CPU)
		}
	}
	if before.RSS < 1<<20 || before.PeakRSS < before.RSS || before.Threads < 1 {
		t.Errorf("usage %+v", before)
	}
}

func TestOfNoProcess(t *testing.T) {
	if u, err := Of(1 << 29); err == nil {
		t.Errorf("a process that does not exist used %+v", u)
	}
}

// TestUncache: the file is as before, and a path without a file is an error.
func TestUncache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	want := strings.Repeat("a program ", 1<<20)
	if err := os.WriteFile(path, []byte(want), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Uncache(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := Uncache(path + "s"); runtime.GOOS == "linux" && err == nil {
		t.Error("no error without a file")
	}
}
