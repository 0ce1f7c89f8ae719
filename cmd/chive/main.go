// Command chive is onion routing in one binary: see chive help. What it does is in
// package cli.
package main

import (
	"os"
	"runtime"

	"github.com/chivenet/chive/internal/cli"
)

func main() {
	runtime.MemProfileRate = 0 // package daemon samples if there is a port for profiles
	os.Args = cli.AsTor(os.Args)
	cli.Main(cli.Chive(os.Args[1:]...))
}
