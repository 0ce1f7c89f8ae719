package tord

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/daemon"
)

// TestNativeOnion: `chive onion serve` with a port for controllers tells of its service and its client, and steers it.
func TestNativeOnion(t *testing.T) {
	p := native(t, daemon.NewOnionSettings(&[]string{"80"}), "key-dir = 'DIR/service'\nport = ['80']\ncontrol = 'unix:DIR/c'\n")
	p.out.wait(t, `(?m)^control `+p.dir+`/c$`)
	c := p.known("c")
	c.want("GETINFO net/listeners/socks", "250-net/listeners/socks=\n250 OK")
	c.want("GETINFO fingerprint", "551 Not running in server mode")
	if got := c.ask("GETINFO chive/onions"); !strings.Contains(got, " PUBLISHED=0 ") {
		t.Errorf("%s", got)
	}
	c.want("SIGNAL NEWNYM", "250 OK")
	c.begins("SETCONF MaxCircuitDirtiness=20", "553 Unable to set option")
	c.want("SIGNAL HALT", "250 OK")
	if err := <-p.done; err != nil {
		t.Error(err)
	}
}
