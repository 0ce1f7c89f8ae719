// Command gendocs writes the documents that can be made of the programs themselves.
//
//	go run ./internal/tools/gendocs man DIR    manual pages of chive
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/chivenet/chive/internal/cli"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "man" {
		fmt.Fprintln(os.Stderr, "usage: gendocs man DIR")
		os.Exit(2)
	}
	if err := man(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// man writes a page for each command. Their date is SOURCE_DATE_EPOCH, if it is set.
func man(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	chive := cli.Chive()
	chive.DisableAutoGenTag = true
	return doc.GenManTree(chive, &doc.GenManHeader{Section: "1", Source: "Chive", Manual: "Chive"}, dir)
}
