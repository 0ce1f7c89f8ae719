package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/chivenet/chive/internal/socks"
)

// fullDisk is an output that takes nothing.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestOutputIsLost: a command whose answer could not be written has failed.
func TestOutputIsLost(t *testing.T) {
	dir := t.TempDir()
	l, err := socks.ListenUnix(filepath.Join(dir, "status.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			bufio.NewReader(c).ReadString('\n') // the request
			c.Write([]byte(`{"role": "relay"}`))
			c.Close()
		}
	}()
	for _, args := range [][]string{
		{"fte", "formats"}, {"fte", "test", "--bytes", "10"}, {"fte", "keygen", filepath.Join(dir, "keys")},
		{"status", "--data-dir", dir}, {"status", "--json", "--data-dir", dir},
	} {
		root := Chive()
		root.SetArgs(args)
		root.SetOut(fullDisk{})
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); !errors.Is(err, errFull) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestFTETestStops: Ctrl-C ends the test of a format, which else may take minutes.
func TestFTETestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := runChive(ctx, "fte", "test", "--bytes", "1000"); !errors.Is(err, context.Canceled) || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}
