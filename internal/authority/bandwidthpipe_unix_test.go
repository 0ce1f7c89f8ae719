//go:build unix

package authority

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBandwidthPipe: a bandwidth file that is a pipe to which nobody writes does not hold up a vote.
func TestBandwidthPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "v3bw")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &Authority{log: slog.New(slog.NewTextHandler(&log, nil))}
	a.cfg.BandwidthFile = pipe
	read := make(chan bool, 1)
	go func() {
		bw, doc := a.bandwidths(time.Unix(1700000000, 0))
		read <- bw == nil && doc == nil
	}()
	select {
	case none := <-read:
		if !none || !strings.Contains(log.String(), "no regular file") {
			t.Errorf("none: %v; log: %s", none, log.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the vote waits for it")
	}
}
