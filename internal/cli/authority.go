package cli

import (
	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
)

// authorityCommand runs a directory authority.
func authorityCommand() *cobra.Command {
	return processCommand(&cobra.Command{
		Use:   "authority",
		Short: "Run a directory authority",
		Long: `Run a directory authority: it takes relays' descriptors, tests whether they can be reached, votes about them with
the other authorities of the network file, and serves the consensus. Its keys are in DIR/keys: make them with
"chive keys certify". It votes at the times that the authorities agree on; --testing suits a private network.

Standard output has a line "ready" when it serves. The log goes to standard error. "chive status --data-dir DIR" asks it
how it is.

SIGTERM and SIGINT end it. SIGHUP reads the settings and the list of --relay-list again: the list, --max-memory and
--log-level take effect, other changes are named and wait for the next start. SIGUSR2 lets the program take over that
the file of this one has now; the ports stay open meanwhile.`,
		Example: `  chive keys certify --address 192.0.2.1:9030 auth/keys
  chive authority --data-dir auth --network net.toml --nickname auth1 --orport 192.0.2.1:9001 --dirport 192.0.2.1:9030
  chive authority --config /etc/chive-authority.toml`,
	}, daemon.NewAuthoritySettings(), "config", "check", "authority")
}
