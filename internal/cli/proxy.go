package cli

import (
	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
)

// proxyCommand runs a client with its ports.
func proxyCommand() *cobra.Command {
	return processCommand(&cobra.Command{
		Use:   "proxy",
		Short: "Run a client with SOCKS, HTTP CONNECT and DNS ports",
		Long: `Run a Tor client with ports that other programs use: SOCKS 4, 4a and 5, HTTP CONNECT, and DNS.

Standard output has a line for each port, such as "socks 127.0.0.1:9050", and then a line "ready" when
traffic can flow. The log goes to standard error.

SIGTERM and SIGINT let open connections finish, and then the program ends; a second signal ends it at once. SIGHUP
reads the settings again: the choice of relays, isolation by destination, timeouts, --drain and --log-level take effect,
other changes are named and wait for the next start. Onion services, the tables [[onion]] of the file, come and go.
SIGUSR2 lets the program take over that the file of this one has now; the ports stay open meanwhile.`,
		Example: "  chive proxy\n  curl -x socks5h://127.0.0.1:9050 https://check.torproject.org/api/ip",
	}, daemon.NewProxySettings(), "config", "check")
}
