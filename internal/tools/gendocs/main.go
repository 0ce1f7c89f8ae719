// Command gendocs writes what the commands say of themselves: docs/options.md, the table of
// C tor's options, the tables of metrics, and the manual pages. It is not part of what users install.
//
//	go run ./internal/tools/gendocs options docs/options.md
//	go run ./internal/tools/gendocs torrc docs/moving-from-c-tor.md
//	go run ./internal/tools/gendocs metrics docs/metrics.md
//	go run ./internal/tools/gendocs man DIR
package main

import (
	"fmt"
	"os"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/command/manual"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "options":
			return os.WriteFile(args[1], optionsPage(cli.Chive()), 0o644)
		case "torrc":
			return os.WriteFile(args[1], torrcPage(), 0o644)
		case "metrics":
			page, err := os.ReadFile(args[1])
			if err == nil {
				page, err = metricsPage(page)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			return os.WriteFile(args[1], page, 0o644)
		case "man":
			return manual.Write(cli.Chive(), args[1])
		}
	}
	return fmt.Errorf("usage: gendocs options FILE | gendocs torrc FILE | gendocs metrics FILE | gendocs man DIR")
}
