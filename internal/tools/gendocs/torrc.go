package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/torrc"
)

// torrcPage is docs/moving-from-c-tor.md.
func torrcPage() []byte {
	var b bytes.Buffer
	b.WriteString(torrcIntro)
	var all []*torrc.Option
	for o := range torrc.Options {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *torrc.Option) int {
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, o := range all {
		here := "–"
		switch {
		case o.Key != "":
			here = fmt.Sprintf("`%s` (%s)", o.Key, o.Role)
		case o.Same != "":
			here = fmt.Sprintf("always as with `%s`", o.Same)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Name, here, o.Why)
	}
	return b.Bytes()
}

const torrcIntro = `# Moving from C tor

` + "`chive config import --out chive.toml /etc/tor/torrc`" + ` translates a configuration: it follows ` + "`%include`" + `, writes each line as a
setting or as a comment that says why there is none, and names on standard error what is lost, with the file and the line. Lines
that limit or protect something (a quota, a policy, an address to connect from) come last, under a warning, which the new file has,
too. A torrc often describes
several of Chive's programs at once: ` + "`--role proxy`, `--role relay` and `--role authority`" + ` choose one; onion services become
tables of the proxy's file. A private network's authorities go into a network file: ` + "`chive network import`" + `.

| exit code | the torrc |
|---|---|
| 0 | every line has its setting, or needs none |
| 4 | the file is written, and lines are left out or changed |
| 2 | there is a mistake in a line. With ` + "`--strict`" + ` also: a line would be left out or changed. Nothing is written |

` + "`chive config check relay --config FILE`" + ` then says whether the program would start with the file. The torrcs of the Tor Project's
pages for bridges (obfs4 and WebTunnel), relays, exits, onion services and clients pass. A relay whose torrc has no ` + "`Address`" + ` takes
the public IPv4 address of its machine if there is one, and not several. Behind a router, set ` + "`address`" + `: C tor asks the
authorities how they see it, and Chive does not. A bridge is not published to the bridge authority.

Keys need no translation. A relay's ` + "`DataDirectory/keys`" + ` or ` + "`KeyDirectory`" + `, an authority's keys and a service's ` + "`HiddenServiceDir`" + ` have the same
files in both programs: stop C tor, copy or name the directory, start Chive. Never run both with one key. [Operators](operators.md),
[relays](relays.md) and [onion services](onions.md#the-options-of-c-tor) say how the programs work here.

The table has every option of C tor 0.4.9: its name here and the programs that have it, or why there is none. Most options whose
names begin with Testing or two underscores are only for C tor's own use. This page is generated:
` + "`go run ./internal/tools/gendocs torrc docs/moving-from-c-tor.md`" + `.

| C tor | here | notes |
|---|---|---|
`
