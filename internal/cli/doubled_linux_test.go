package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/command/commandtest"
)

// TestDoubledWords: what commands say of typical failures has no word twice, as errors have that
// two layers wrap: connect: connect: refused. The failures are ports that others have, that
// nobody has or that cannot be reached, and files where nobody may write.
func TestDoubledWords(t *testing.T) {
	makeAuthority(t)
	const noFile = "/sys/none/file" // where root cannot write either
	for _, c := range []struct{ args, until, says string }{
		{args: "proxy " + asClient + "--socks BUSY", says: "in use"},
		{args: "proxy " + asClient + "--http BUSY", says: "in use"},
		{args: "proxy " + asClient + "--dns BUSY", says: "in use"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --metrics BUSY", says: "in use"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --profiles BUSY", says: "in use"},
		{args: "proxy " + asClient + "--socks unix:" + noFile},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0", until: "refused"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --proxy socks5://127.0.0.1:1", until: "refused"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --proxy http://127.0.0.1:1", until: "refused"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --outbound-bind-address 192.0.2.5 --proxy socks5://198.51.100.1:1", until: "assign requested"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --bridge '127.0.0.1:1 " + aKey + "'", until: "refused"},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --data-dir " + noFile},
		{args: "proxy " + asClient + "--socks 127.0.0.1:0 --log-file " + noFile},
		{args: "proxy --data-dir DIR/data --socks 127.0.0.1:0 --network " + noFile},
		{args: "relay " + asRelay + "--orport BUSY", says: "in use"},
		{args: "relay " + asRelay + "--dirport BUSY", says: "in use"},
		{args: "relay " + asRelay + "--metrics BUSY", says: "in use"},
		{args: "relay " + asRelay + "--data-dir " + noFile},
		{args: "relay " + asRelay, until: "refused"},
		{args: "relay " + asRelay + "--bridge --transport-plugin 'obfs4 exec /usr/bin/false' --transport-listen 'obfs4 127.0.0.1:0'", until: "it ended"},
		{args: "authority " + asAuth + "--metrics BUSY", says: "in use"},
		{args: "onion serve " + asClient + "--key-dir DIR/key --metrics BUSY 80=127.0.0.1:1", says: "in use"},
		{args: "onion serve " + asClient + "--key-dir " + noFile + " 80=127.0.0.1:1"},
		{args: "onion serve " + asClient + "--key-dir DIR/key 80=127.0.0.1:1", until: "refused"},
		{args: "onion balance " + asClient + "--key-dir DIR/key --metrics BUSY " + anOnion, says: "in use"},
		{args: "get " + asClient + "--retries 0 --connect-timeout 2s http://127.0.0.1:1/"},
		{args: "get " + asClient + "--retries 0 --connect-timeout 2s --proxy socks4://127.0.0.1:1 http://127.0.0.1:1/"},
		{args: "get " + asClient + "--retries 0 --connect-timeout 2s --output " + noFile + " http://127.0.0.1:1/"},
		{args: "exec " + asClient + "--start-timeout 2s -- true"},
		{args: "exec " + asClient + "--socks 127.0.0.1:1 -- true", says: "nothing listens"},
		{args: "exec " + asClient + "-- /etc/passwd", says: "permission"},
		{args: "exec " + asClient + "-- none-such", says: "PATH"},
		{args: "status --data-dir DIR"}, {args: "newnym --data-dir DIR"}, {args: "status --data-dir " + noFile},
		{args: "fte --client-port BUSY=port", says: "in use"},
		{args: "fte --mode server --server-port BUSY=port", says: "in use"},
		{args: "fte " + fteServer + "--key-file " + noFile},
		{args: "fte keygen " + noFile},
		{args: "keys relay " + noFile}, {args: "keys family " + noFile}, {args: "keys show " + noFile}, {args: "keys certify " + noFile},
		{args: "onion key make " + noFile}, {args: "onion key show " + noFile},
		{args: "onion clients add " + noFile + " alice"}, {args: "onion clients add ONION alice --output " + noFile},
		{args: "onion clients list " + noFile}, {args: "onion clients remove CLIENTS alice"},
		{args: "config import " + noFile}, {args: "config import TORRC --out " + noFile}, {args: "network import " + noFile},
		{args: "config check --network " + noFile}, {args: "config check relay --network " + noFile + " --orport 127.0.0.1:0"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			cmd := chiveCommand(p.fill(c.args)...)
			cmd.Dir = p.dir
			cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME="+p.dir+"/state")
			said := new(shared)
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { cmd.Wait(); close(ended) }()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			limit := time.NewTimer(2 * longest)
			defer limit.Stop()
			for wait := true; wait; {
				select {
				case <-ended:
					wait = false
				case <-tick.C:
					wait = c.until == "" || !strings.Contains(said.String(), c.until)
				case <-limit.C:
					t.Errorf("nothing happens: %s", said)
					wait = false
				}
			}
			cmd.Process.Kill()
			<-ended
			text := said.String()
			if !strings.Contains(text, c.until) || !strings.Contains(text, c.says) || strings.TrimSpace(text) == "" {
				t.Errorf("it does not say %q: %s", c.until+c.says, text)
			}
			for l := range strings.Lines(text) {
				for _, w := range commandtest.Doubled(strings.TrimSpace(l)) {
					t.Errorf("%s\n%s", w, l)
				}
			}
		})
	}
}
