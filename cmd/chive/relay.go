package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/daemon"
)

// relayCommand runs a relay.
func relayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "relay",
		Short: "Run a relay: guard, middle or exit",
		Long: `Run a relay. It needs a port that others can reach (--orport), and a name (--nickname). With --exit-policy it
is an exit: others will see this machine as the source of their traffic.

At its first start it makes its keys in the data directory; they are the relay's identity, so keep a copy. Keys
of C tor are used when they are there. It then tests whether its port can be reached, and publishes itself.

Standard output has a line "orport IP:PORT" for each address, a line "fingerprint RSA ED25519", and a line "ready"
when it serves. The log goes to standard error.

SIGTERM and SIGINT let open circuits go on for --shutdown-wait and then end; a second signal ends at once.`,
		Example: `  chive relay --nickname mine --orport 192.0.2.1:9001 --contact 'me <me@example.com>'
  chive relay --nickname mine --orport 192.0.2.1:9001 --exit-policy 'accept *:443,reject *:*'`,
		Args: cobra.NoArgs,
	}
	cfg, s := new(chive.RelayConfig), &daemon.Settings{}
	relayFlags(c.Flags(), cfg, s)
	c.RunE = func(c *cobra.Command, _ []string) error {
		log, _ := daemon.NewLogger(s, c.ErrOrStderr())
		cfg.Logger = log
		if s.NetworkFile != "" {
			var err error
			if cfg.Network, err = chive.LoadNetwork(s.NetworkFile); err != nil {
				return err
			}
		}
		if cfg.DataDir == "" {
			dir, err := chive.DefaultDataDir()
			if err != nil {
				return err
			}
			cfg.DataDir = filepath.Join(dir, "relay")
		}
		if len(cfg.ExitPolicy) == 0 {
			log.Info("this relay lets no traffic out (no --exit-policy): it serves as guard and middle")
		} else {
			log.Warn("this relay is an exit: others will see this machine as the source of their traffic")
		}
		if cfg.Contact == "" {
			log.Warn("no --contact: nobody can tell you when something is wrong with this relay")
		}
		r, err := chive.NewRelay(*cfg)
		if err != nil {
			return err
		}
		for _, a := range r.Addrs() {
			fmt.Fprintln(c.OutOrStdout(), "orport", a)
		}
		rsa, ed := r.Fingerprint()
		fmt.Fprintln(c.OutOrStdout(), "fingerprint", rsa, ed)
		fmt.Fprintln(c.OutOrStdout(), "ready")
		if cfg.Bridge {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			go func() {
				lines, err := r.BridgeLines(ctx)
				if err != nil && ctx.Err() == nil {
					log.Error("a transport of this bridge cannot be used", "error", err)
				}
				for _, l := range lines {
					fmt.Fprintln(c.OutOrStdout(), "bridge", l)
				}
			}()
		}
		return runRelay(c.Context(), r)
	}
	return c
}

// runRelay runs until a signal, drains, and ends at once at a second signal.
func runRelay(ctx context.Context, r *chive.Relay) error {
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	running, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	done := make(chan error, 1)
	go func() { done <- r.Run(running) }()
	for told := false; ; {
		select {
		case err := <-done:
			return err
		case <-stop:
			if told {
				return daemon.ErrKilled
			}
			told = true
			drain()
		}
	}
}

func relayFlags(fs *pflag.FlagSet, cfg *chive.RelayConfig, s *daemon.Settings) {
	fs.StringVar(&s.NetworkFile, "network", "", "network `FILE`; without it, the public network")
	fs.StringVar(&cfg.DataDir, "data-dir", "", "`DIR` for keys and the directory cache (default $XDG_STATE_HOME/chive/relay)")
	fs.StringVar(&cfg.Nickname, "nickname", "Unnamed", "`NAME` of the relay: 1 to 19 letters and digits")
	fs.StringVar(&cfg.Contact, "contact", "", "how others reach you: `TEXT`, public")
	fs.StringSliceVar(&cfg.Family, "family", nil, "`FINGERPRINTS` of your other relays")
	fs.StringVar(&cfg.FamilyFile, "family-file", "", "`FILE` with more of them, between white space and commas")
	fs.StringSliceVar(&cfg.FamilyIDs, "family-id", nil, "`IDENTITIES` of your families, whose keys ('chive keys family') are in DIR/keys; * for every key there")
	fs.StringSliceVar(&cfg.ORPort, "orport", nil, "`ADDR` to listen at: PORT or IP:PORT; more than one may be given")
	fs.StringSliceVar(&cfg.Address, "address", nil, "`ADDR` that others reach the ORPort at, IP:PORT, when it is another one")
	fs.StringSliceVar(&cfg.ExitPolicy, "exit-policy", nil, "`LINES` such as 'accept *:443,reject *:*', or 'default'; without any the relay is no exit")
	fs.BoolVar(&cfg.ExitPrivate, "exit-private", false, "do not refuse private networks before the exit policy")
	fs.BoolVar(&cfg.IPv6Exit, "ipv6-exit", false, "let streams out to IPv6 addresses too")
	fs.StringSliceVar(&cfg.Nameservers, "nameserver", nil, "`ADDR` of a name server, IP:PORT (default: those of the system)")
	fs.BoolVar(&cfg.Bridge, "bridge", false, "be a bridge: a relay that is in no list; standard output has a line \"bridge LINE\" for each way in")
	fs.StringArrayVar(&cfg.ServerTransportPlugins, "transport-plugin", nil, "`LINE` of a bridge's transport: 'obfs4 exec /usr/bin/obfs4proxy'; may be repeated")
	fs.StringArrayVar(&cfg.ServerTransportListen, "transport-listen", nil, "`LINE` that says where a transport listens: 'obfs4 IP:PORT'; may be repeated")
	fs.StringArrayVar(&cfg.ServerTransportOptions, "transport-options", nil, "`LINE` of what a transport is told: 'obfs4 KEY=VALUE ...'; may be repeated")
	fs.Uint64Var(&cfg.BandwidthRate, "bandwidth-rate", 0, "`BYTES` a second that all links together may read, and write (0: no bound)")
	fs.Uint64Var(&cfg.BandwidthBurst, "bandwidth-burst", 0, "`BYTES` that may come at once (0: as much as in a second)")
	fs.Uint64Var(&cfg.MaxAdvertised, "max-advertised", 0, "`BYTES` a second that the relay offers at most (0: no bound)")
	fs.BoolVar(&cfg.AssumeReachable, "assume-reachable", false, "publish without testing the ORPort")
	fs.DurationVar(&cfg.ShutdownWait, "shutdown-wait", 0, "`TIME` that circuits may go on after SIGTERM (0: 30s, negative: none)")
	fs.TextVar(&s.LogLevel, "log-level", s.LogLevel, "lowest `LEVEL` to log: debug, info, warn or error")
	fs.StringVar(&s.LogFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	fs.SortFlags = false
}
