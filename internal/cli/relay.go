package cli

import (
	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/daemon"
)

// relayCommand runs a relay.
func relayCommand() *cobra.Command {
	return processCommand(&cobra.Command{
		Use:   "relay",
		Short: "Run a relay: guard, middle or exit",
		Long: `Run a relay. It needs a port that others can reach (--orport), and a name (--nickname). With --exit-policy it
is an exit: others will see this machine as the source of their traffic.

At its first start it says what it will do and what it needs, and makes its keys in the data directory; they are the
relay's identity, so keep a copy. Keys of C tor are used when they are there. It then tests whether its port can be
reached, and publishes itself.

Standard output has a line "orport IP:PORT" for each address, a line "fingerprint RSA ED25519", for a bridge a line
"bridge LINE" for each transport (or for the ORPort if there is none), and a line "ready" when it serves. The log goes
to standard error. "chive status --data-dir DIR" asks it how it is.

SIGTERM and SIGINT let open circuits go on for --shutdown-wait, and then the relay ends; a second signal ends it at
once. SIGHUP reads the settings and files again: contact, family, exit policy, name servers, limits of bandwidth,
--max-memory, --shutdown-wait, --log-level, family keys and a renewed signing key take effect; other changes are named
and wait for the next start. SIGUSR2 lets the program take over that the file of this one has now; the ports stay open
meanwhile.`,
		Example: `  chive relay --nickname mine --orport 192.0.2.1:9001 --contact 'me <me@example.com>'
  chive relay --nickname mine --orport 192.0.2.1:9001 --exit-policy 'accept *:443,reject *:*'
  chive relay --config /etc/chive-relay.toml`,
	}, daemon.NewRelaySettings(), "config", "check", "relay")
}
