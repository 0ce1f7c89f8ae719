package relay

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestBareBridgeWarns: a bridge without a transport says what its port shows, and nobody else does.
func TestBareBridgeWarns(t *testing.T) {
	for name, c := range map[string]struct {
		bridge     bool
		transports *transports
		want       bool
	}{"a bare bridge": {true, nil, true}, "a bridge with a transport": {true, new(transports), false}, "a relay": {false, nil, false}} {
		var log bytes.Buffer
		r := &Relay{cfg: Config{Bridge: c.bridge}, log: slog.New(slog.NewTextHandler(&log, nil)), transports: c.transports}
		r.warnBare()
		if got := strings.Contains(log.String(), "the bridge has no transport"); got != c.want {
			t.Errorf("%s: it warns: %v", name, got)
		}
	}
}
