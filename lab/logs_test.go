package lab_test

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestLogsNameNobody: the logs of a client and the relays, even at level debug,
// have no destination, whether the request succeeded or failed, and no whole
// fingerprint. (An error that no exit allows a port names the port.)
func TestLogsNameNobody(t *testing.T) {
	labtest.NoLeaks(t)
	var said logText
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nw, err := lab.Start(ctx, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	c, err := nw.Client.DialContext(ctx, "tcp", nw.Echo)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, vain := range []string{"no-such-name.example:4711", "192.0.2.99:4712"} {
		if c, err := nw.Client.DialContext(ctx, "tcp", vain); err == nil {
			c.Close()
			t.Errorf("%s was reached", vain)
		}
	}
	if err := nw.Close(); err != nil {
		t.Error(err)
	}
	text := said.String()
	if !strings.Contains(text, "node=client") || !strings.Contains(text, "level=DEBUG") {
		t.Fatalf("the nodes say nothing:\n%s", text)
	}
	whole := regexp.MustCompile(`\b[0-9A-Fa-f]{40}\b`)
	_, port, _ := strings.Cut(nw.Echo, ":")
	for line := range strings.Lines(text) {
		for _, secret := range []string{"no-such-name", "192.0.2.99", ":" + port} {
			if strings.Contains(line, secret) {
				t.Errorf("a destination: %s", line)
			}
		}
		if whole.MatchString(line) {
			t.Errorf("a fingerprint: %s", line)
		}
	}
}
