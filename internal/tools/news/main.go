// Command news compares Chive with the newest tor that Debian has, and prints what is new
// there. With -public-network it makes internal/netdir/public.txt from that tor. See
// CONTRIBUTING.md, "What is new in C tor".
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("peer", "bin/peers/tor-newest", "`DIR` with the newest tor, as make peers-tor leaves it")
	root := flag.String("dir", ".", "the repository's `DIR`")
	public := flag.Bool("public-network", false, "write the list of the public network instead")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	err := run(out, *dir, *root, *public)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "news:", err)
		os.Exit(1)
	}
}

// run writes the report, or the list of the public network, if all could be read.
func run(w io.Writer, dir, root string, public bool) error {
	p, err := openPeer(dir)
	if err != nil {
		return err
	}
	net, err := networkOf(p)
	if err != nil {
		return err
	}
	if public {
		_, err := io.WriteString(w, net.text())
		return err
	}
	page, err := readFile(filepath.Join(root, "docs/tor-releases.md"), maxText)
	if err != nil {
		return err
	}
	words, err := goStrings(filepath.Join(root, "internal"))
	if err != nil {
		return err
	}
	for _, w := range parameter.FindAllString(string(page), -1) {
		words[w] = true
	}
	return report(w, p, net, rowsOf(string(page)), words)
}
