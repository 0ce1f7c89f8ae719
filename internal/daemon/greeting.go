package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/relay"
)

// greet explains, at a relay's first start, what the relay will do and what it
// needs. At later starts, it logs warnings about settings that may be mistakes.
func greet(w io.Writer, networkFile string, cfg *relay.Config, log *slog.Logger) {
	keys := cfg.KeyDir
	if keys == "" {
		keys = filepath.Join(cfg.DataDir, "keys")
	}
	if _, err := os.Stat(filepath.Join(keys, "secret_id_key")); err == nil {
		if letsOut(cfg) {
			log.Warn("this relay is an exit: others will see this machine as the source of their traffic")
		}
		if cfg.Contact == "" {
			log.Warn("no --contact: nobody can tell you when something is wrong with this relay")
		}
		return
	}
	line := func(topic, format string, args ...any) {
		fmt.Fprintf(w, "  %-10s %s\n", topic, fmt.Sprintf(format, args...))
	}
	does := "opens its port, tests whether others reach it, and then\npublishes itself"
	if cfg.Bridge {
		does = "opens its port, and publishes nothing"
	}
	fmt.Fprintf(w, "The first start of this relay. It makes its keys, %s. What it does, and what it needs of you:\n", does)
	network := "the public Tor network"
	if networkFile != "" {
		network = "the network of " + networkFile
	}
	line("network", "%s", network)
	line("keys", "%s: they are the relay's identity and reputation. Keep a copy.", keys)
	line("port", "TCP to %s has to reach this machine through every firewall and router.", strings.Join(reachedAt(cfg), " and "))
	switch {
	case cfg.Bridge:
		line("kind", "a bridge: it is in no list; give its lines to the people who will use it.")
	case !letsOut(cfg):
		line("policy", "no --exit-policy that accepts anything: it lets no traffic out, and serves as guard and middle.")
	default:
		lines := cfg.ExitPolicy
		if cfg.ReducedExitPolicy {
			lines = append(slices.Clip(lines), "the reduced policy")
		}
		line("policy", "an exit, by %q: others will see this machine as the source of their traffic.", strings.Join(lines, ","))
	}
	if cfg.Contact == "" {
		line("contact", "none (--contact): nobody can tell you when something is wrong with this relay.")
	} else {
		line("contact", "%q, which everyone can read.", cfg.Contact)
	}
	if len(cfg.Family)+len(cfg.FamilyIDs) == 0 && cfg.FamilyFile == "" && !cfg.Bridge {
		line("family", "none: if you run other relays, say so (--family-id, --family-file).")
	}
	if cfg.BandwidthRate == 0 {
		line("bandwidth", "no limit (--bandwidth-rate): it takes what it is given.")
	} else {
		line("bandwidth", "%d bytes a second in each direction.", cfg.BandwidthRate)
	}
	fmt.Fprintf(w, "\"chive status --data-dir %s\" shows how it is. A new relay gets traffic slowly, over days and weeks.\n", cfg.DataDir)
}

// reachedAt returns the addresses to which others connect: to a bridge's transports, if it has
// some.
func reachedAt(cfg *relay.Config) []string {
	if cfg.Bridge && len(cfg.ServerTransportListen) > 0 {
		return cfg.ServerTransportListen
	}
	if len(cfg.Address) > 0 {
		return cfg.Address
	}
	return cfg.ORPort
}

// letsOut reports whether a relay is an exit. Many a torrc of a middle relay has a policy
// that refuses everything.
func letsOut(cfg *relay.Config) bool {
	p, err := exit.WholePolicy(cfg.ExitPolicy, exit.PolicyOptions{Private: cfg.ExitPrivate, IPv6: cfg.IPv6Exit, Reduced: cfg.ReducedExitPolicy})
	return (len(cfg.ExitPolicy) > 0 || cfg.ReducedExitPolicy) && err == nil && p.Accepts()
}
