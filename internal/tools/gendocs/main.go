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
	"path/filepath"

	"github.com/chivenet/chive/internal/cli"
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
			return writeMan(args[1])
		}
	}
	return fmt.Errorf("usage: gendocs options FILE | gendocs torrc FILE | gendocs metrics FILE | gendocs man DIR")
}

// writeMan writes a manual page for each command into a directory.
func writeMan(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, page := range manPages(cli.Chive()) {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}
