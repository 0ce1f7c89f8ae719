package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/torrc"
)

// report writes what is new in a tor. words are the names that the tree knows. Lines of news
// begin with two spaces. It does not compare commands of the control port: Chive has none.
func report(w io.Writer, p *peer, net *network, page rows, words map[string]bool) error {
	known, origin := netdir.Public(), netdir.PublicOrigin()
	protocols, err := protocolNews(p.strings)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "The newest tor of Debian is %s; its fallback directories are of %s.\n", p.version, net.date.Format("2006-01-02"))
	tell := func(what string, lines []string) {
		if len(lines) == 0 {
			fmt.Fprintf(w, "%s: nothing new\n", what)
			return
		}
		fmt.Fprintf(w, "%s: %d NEW\n", strings.ToUpper(what), len(lines))
		for _, l := range lines {
			fmt.Fprintln(w, "  "+l)
		}
	}
	tell("releases and their items without a row in docs/tor-releases.md", itemNews(p.releases, page))
	tell("subprotocol versions", protocols)
	tell("the public network (make public-network)", networkNews(net, lines(known), origin))
	var options []string
	for o := range torrc.Options {
		options = append(options, o.Name)
	}
	tell("options of torrc without a row in internal/torrc", optionNews(p.options, options))
	tell("consensus parameters that no file names", paramNews(p.releases, p.strings, words))
	return nil
}

// maxShown bounds the text of an item.
const maxShown = 160

// itemNews returns the items of releases that the page does not tell of.
func itemNews(all []release, page rows) (lines []string) {
	for _, r := range all {
		if !told(r.version) {
			continue
		}
		for _, it := range page.lacks(r) {
			text := it.text
			if len(text) > maxShown {
				text = text[:maxShown] + "..."
			}
			keys := strings.Join(it.keys, ", ")
			if keys == "" {
				keys = "no number"
			}
			lines = append(lines, fmt.Sprintf("%s (%s), %s: %s: %s", r.version, r.day, keys, it.title, text))
		}
	}
	return lines
}

// optionNews returns the options that are not known, as C tor compares them: letters in
// capitals are the same. Names that begin with underscores are C tor's own, and tor(1) does
// not describe them; neither does it describe most of those for tests.
func optionNews(theirs, known []string) (lines []string) {
	have := map[string]bool{}
	for _, o := range known {
		have[strings.ToLower(o)] = true
	}
	for _, o := range theirs {
		if !strings.HasPrefix(o, "_") && !have[strings.ToLower(o)] {
			lines = append(lines, o)
		}
	}
	return lines
}

// lines returns a network as lines of public.txt.
func lines(n *netdir.Network) []string {
	var all []string
	for _, a := range n.Authorities {
		all = append(all, listed{nickname: a.Nickname, v3ident: a.V3Ident.String(), rsa: a.RSA.String(), dirPort: a.DirPort, orPorts: a.ORPorts}.line())
	}
	for _, f := range n.Fallbacks {
		all = append(all, listed{rsa: f.RSA.String(), orPorts: f.ORPorts}.line())
	}
	return all
}

// networkNews counts the lines that differ from those of public.txt.
func networkNews(net *network, known []string, from netdir.Origin) (lines []string) {
	theirs := slices.Concat(net.authorities, net.fallbacks)
	count := func(kind string, of, in []string) (n int) {
		for _, l := range of {
			if strings.HasPrefix(l, kind) && !slices.Contains(in, l) {
				n++
			}
		}
		return n
	}
	for _, kind := range []string{"authority", "fallback"} {
		if added, gone := count(kind, theirs, known), count(kind, known, theirs); added+gone > 0 {
			lines = append(lines, fmt.Sprintf("%s lines: %d are not in public.txt, and %d of public.txt are no longer listed", kind, added, gone))
		}
	}
	if !net.date.Equal(from.Date) || net.tor != from.Tor {
		lines = append(lines, fmt.Sprintf("public.txt is of tor %s, %s", from.Tor, from.Date.Format("2006-01-02")))
	}
	return lines
}
