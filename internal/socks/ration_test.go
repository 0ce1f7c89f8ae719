package socks

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailuresAreRationed: requests that fail do not fill the disk with log lines, and a later
// line says how many were left out.
func TestFailuresAreRationed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := NewSOCKS(Config{Dialer: &network{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		l := newPipes()
		go s.Serve(l)
		fail := func() {
			c := l.connect()
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, request5(1, "nowhere", 80)...)
			hear(t, c, 5, 4)
			c.Close()
			synctest.Wait()
		}
		for range 3 * rationed {
			fail()
		}
		if n := strings.Count(log.String(), "\n"); n != rationed {
			t.Errorf("%d lines of %d failures", n, 3*rationed)
		}
		time.Sleep(sparing)
		log.Reset()
		fail()
		if want := "not_logged=20"; strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want) {
			t.Errorf("%q, without %s", log.String(), want)
		}
		s.Close()
	})
}
