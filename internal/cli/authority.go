package cli

import (
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
)

// authorityCommand runs a directory authority.
func authorityCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "authority",
		Short: "Run a directory authority",
		Long: `Run a directory authority: it takes relays' descriptors, tests whether they can be reached, votes about them with
the other authorities of the network file, and serves the consensus. Its keys are in DIR/keys: make them with
"chive keys certify". It votes at the times that the authorities agree on; --testing suits a private network.

Standard output has a line "ready" when it serves. The log goes to standard error. "chive status --data-dir DIR" asks it
how it is. SIGHUP reads the list of --relay-list again.`,
		Example: `  chive keys certify --address 192.0.2.1:9030 auth/keys
  chive authority --data-dir auth --network net.toml --nickname auth1 --orport 192.0.2.1:9001 --dirport 192.0.2.1:9030`,
		Args: cobra.NoArgs,
	}
	cfg := new(authority.Config)
	var network, level string
	var params map[string]string
	f := c.Flags()
	f.StringVar(&network, "network", "", "network `FILE` that names all authorities")
	f.StringVar(&cfg.DataDir, "data-dir", "", "`DIR` of keys and state")
	f.StringVar(&cfg.Nickname, "nickname", "", "name in votes: 1 to 19 letters and digits")
	f.StringVar(&cfg.Contact, "contact", "", "how others reach you")
	f.StringVar(&cfg.ORPort, "orport", "", "`IP:PORT` for clients")
	f.StringVar(&cfg.DirPort, "dirport", "", "`IP:PORT` for relays and authorities")
	f.DurationVar(&cfg.VotingInterval, "voting-interval", 0, "time between votes (default 1h)")
	f.DurationVar(&cfg.VoteDelay, "vote-delay", 0, "time for votes (default 5m)")
	f.DurationVar(&cfg.DistDelay, "dist-delay", 0, "time for signatures (default 5m)")
	f.DurationVar(&cfg.InitialVotingInterval, "initial-voting-interval", 0, "the same while there is no consensus (default 30m)")
	f.DurationVar(&cfg.InitialVoteDelay, "initial-vote-delay", 0, "(default 5m)")
	f.DurationVar(&cfg.InitialDistDelay, "initial-dist-delay", 0, "(default 5m)")
	f.IntVar(&cfg.IntervalsValid, "intervals-valid", 0, "voting intervals that a consensus is valid for (default 3)")
	f.StringToStringVar(&params, "param", nil, "vote for a consensus parameter, `NAME=NUMBER`")
	f.StringVar(&cfg.ClientVersions, "client-versions", "", "recommended versions of clients, comma-separated")
	f.StringVar(&cfg.ServerVersions, "server-versions", "", "recommended versions of relays, comma-separated")
	f.StringVar(&cfg.BandwidthFile, "bandwidth-file", "", "v3bw `FILE` with measurements")
	f.StringVar(&cfg.RelayList, "relay-list", "", "`FILE` of relays to reject or mark (C tor's approved-routers)")
	f.BoolVar(&cfg.ApprovedOnly, "approved-only", false, "take no relay that the list does not approve of")
	f.BoolVar(&cfg.IPv6, "ipv6", false, "test and vote on relays' IPv6 addresses")
	f.BoolVar(&cfg.AssumeReachable, "assume-reachable", false, "take relays to be running without a test")
	f.BoolVar(&cfg.Testing, "testing", false, "give every relay the Guard and HSDir flags; any number may share an address")
	f.IntVar(&cfg.WaitForRelays, "wait-for-relays", 0, "hold the first vote back until so many relays are known")
	f.Uint64Var(&cfg.MaxMemory, "max-memory", 0, "`BYTES` that others can make the authority hold; over it, those that hold the most are closed (0: 512 MiB)")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return fault.New(fault.Config, "log-level: %w", err)
		}
		cfg.Logger = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: l}))
		if network == "" {
			return fault.New(fault.Config, "--network is needed: an authority must know the others")
		}
		var err error
		if cfg.Network, err = chive.LoadNetwork(network); err != nil {
			return err
		}
		cfg.Params = map[string]int32{}
		for name, text := range params {
			v, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return fault.New(fault.Config, "param %s: %w", name, err)
			}
			cfg.Params[name] = int32(v)
		}
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		p := daemon.AuthorityProcess{Config: *cfg, Out: c.OutOrStdout(), Hangup: hangup}
		return p.Run(c.Context())
	}
	return c
}
