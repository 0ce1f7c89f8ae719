// Command chive is onion routing in one binary: see chive help. What it does is in
// package cli.
package main

import (
	"os"

	"github.com/chivenet/chive/internal/cli"
)

func main() { cli.Main(cli.Chive(os.Args[1:]...)) }
