// Package manual writes manual pages from what commands say of themselves. Programs for users do not
// contain it, but for those in other modules, whose commands nobody else can reach.
package manual

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Pages returns the manual pages of a command and all below it, by their files' names.
func Pages(root *cobra.Command, date time.Time) map[string][]byte {
	pages := map[string][]byte{}
	Walk(root, func(c *cobra.Command) { pages[manName(c)+".1"] = manPage(c, date) })
	return pages
}

// Write writes the manual pages of a command and all below it into a directory. Their date is
// SOURCE_DATE_EPOCH, or today.
func Write(root *cobra.Command, dir string) error {
	date := time.Now()
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		s, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", text)
		}
		date = time.Unix(s, 0)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, page := range Pages(root, date.UTC()) {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manName is the name of a command's page: chive-config-check(1).
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes a command's page in the language of man(7).
func manPage(c *cobra.Command, date time.Time) []byte {
	var b bytes.Buffer
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(title)) }
	name := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 %s \"Chive\" \"Chive manual\"\n.ad l\n", strings.ToUpper(name), date.Format(time.DateOnly))
	section("Name")
	b.WriteString(roff(wrapped(name+" - "+c.Short)) + "\n")
	section("Synopsis")
	fmt.Fprintf(&b, ".B %s\n", roff(c.UseLine()))
	section("Description")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	for i, p := range strings.Split(long, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(wrapped(p)) + "\n")
	}
	if all := Groups(c); len(all) > 0 {
		section("Options")
		for _, g := range all {
			if len(all) > 1 {
				fmt.Fprintf(&b, ".SS %s\n", roff(g.Title))
			}
			for _, f := range g.Flags {
				manFlag(&b, f)
			}
		}
	}
	if c.Example != "" {
		section("Examples")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(c.Example))
	}
	if c.Name() == "chive" {
		section("Exit status")
		b.WriteString(wrapped("0: it did what it was asked to do. 1: it failed, and may succeed later. 2: what was asked for has a mistake, such as a wrong option. "+
			"3: it was told twice to stop, and cut what was open.") + "\n")
	}
	var related []string
	if c.HasParent() {
		related = append(related, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		Walk(sub, func(s *cobra.Command) {
			if s.Parent() == c {
				related = append(related, manName(s))
			}
		})
	}
	if len(related) > 0 {
		section("See also")
		for i, r := range related {
			end := ","
			if i == len(related)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(r), end)
		}
	}
	return b.Bytes()
}

// manFlag writes one flag.
func manFlag(b *bytes.Buffer, f Flag) {
	b.WriteString(".TP\n")
	if f.Short != "" {
		fmt.Fprintf(b, "\\fB\\-%s\\fR, ", f.Short)
	}
	fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+f.Name))
	if f.Value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(f.Value))
	}
	b.WriteString("\n" + roff(wrapped(f.Help)))
	for _, more := range []struct{ what, text string }{{"Values: ", f.Limits}, {"More than one: ", f.List}, {"Default: ", f.Preset}} {
		if more.text != "" {
			b.WriteString(".\n" + roff(wrapped(more.what+more.text)))
		}
	}
	if f.Live {
		b.WriteString(".\nSIGHUP is enough for a change")
	}
	b.WriteString(".\n")
}

// column is how long a line of a page may be, with roff's escapes.
const column = 78

// wrapped breaks lines at spaces where roff's escapes make them longer than column. Lines that begin
// with a space stand as they are.
func wrapped(text string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, " ") {
			out = append(out, line)
			continue
		}
		words := strings.Split(line, " ")
		now := words[0]
		for _, w := range words[1:] {
			if len(roff(now+" "+w)) > column {
				out, now = append(out, now), w
			} else {
				now += " " + w
			}
		}
		out = append(out, now)
	}
	return strings.Join(out, "\n")
}

// roff writes text so that man(7) shows it as it is.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "'", `\(aq`, `"`, `\(dq`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
