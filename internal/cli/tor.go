package cli

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/tord"
)

// AsTor returns the command line of a program that was started by the name tor: other programs look for it.
func AsTor(args []string) []string {
	if len(args) > 0 && strings.TrimSuffix(filepath.Base(args[0]), ".exe") == "tor" {
		return slices.Insert(slices.Clone(args), 1, "tor")
	}
	return args
}

// startedAs returns the words that start this process again as it was started: AsTor has added one.
func startedAs(args []string) []string {
	if name := os.Args[:1]; len(AsTor(name)) > len(name) {
		return append(slices.Clip(name), args...)
	}
	return os.Args
}

// torCommand runs a client, and perhaps a relay, as the program tor.
func torCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tor [-f TORRC] [OPTION VALUE]...",
		Short: "Run a client, or a relay, as the program tor: torrc, tor's command line and control port",
		Long: `Run a client, and with an ORPort a relay or a bridge, as the program tor, for programs that start tor or control it: with a torrc,
tor's command line (tor(1)) and a control port. All lines go to standard output, as tor writes them. A link to chive with
the name tor does the same. docs/control-port.md says what is there and what is not.

An option that would not be obeyed is refused.`,
		Example: "  chive tor -f torrc --SocksPort auto --ControlPort 9051 --CookieAuthentication 1\n  ln -s /usr/bin/chive /opt/app/tor",
		// The options are tor's.
		DisableFlagParsing: true,
	}
	TakesTime(c).RunE = func(c *cobra.Command, args []string) error {
		outliveReaders()
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, append([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, tord.SystemSignals()...)...)
		go panics.Contain(nil, nil, endAfterSecond)()
		p := tord.Program{Args: args, Stdin: c.InOrStdin(), Stdout: c.OutOrStdout(), Signals: signals, Self: startedAs(args)}
		if code := p.Run(context.WithoutCancel(c.Context())); code != 0 {
			return ExitError{code}
		}
		return nil
	}
	return c
}
