package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/torrc"
)

// importRole is a program whose file chive config import writes.
type importRole struct {
	name     string
	role     torrc.Role
	settings func() *daemon.Settings
}

// importRoles are the programs whose files chive config import writes.
var importRoles = []importRole{
	{"proxy", torrc.Proxy, daemon.NewProxySettings},
	{"relay", torrc.Relay, daemon.NewRelaySettings},
	{"authority", torrc.Authority, daemon.NewAuthoritySettings},
}

func importCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "import TORRC",
		Short: "Print a configuration file made from a C tor configuration",
		Long: "Print a configuration file made from a C tor configuration. Each line of it becomes a setting, with the line\n" +
			"in a comment, or a comment that says why there is no setting; standard error names the lines that are lost.\n" +
			"A torrc may describe several of Chive's programs: a line on standard error names them.",
		Example: "  chive config import /etc/tor/torrc > chive.toml\n  chive config import --role relay /etc/tor/torrc > relay.toml",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&name, "role", "", "`PROGRAM` whose file is wanted: proxy, relay or authority (default: the first of authority, relay and proxy that the torrc describes)")
	c.RunE = func(c *cobra.Command, args []string) error {
		var lines []torrc.Line
		if err := interruptible(c.Context(), func() (err error) {
			lines, err = readTorrc(args[0])
			return err
		}); err != nil {
			return err
		}
		has := torrc.Roles(lines)
		i := slices.IndexFunc(importRoles, func(r importRole) bool { return r.name == name })
		for j := len(importRoles) - 1; name == "" && i < 0; j-- {
			if has&importRoles[j].role != 0 {
				i = j
			}
		}
		if i < 0 {
			return fault.New(fault.Config, "--role: %q is not proxy, relay or authority", name)
		}
		doc, err := torrc.Translate(lines, importRoles[i].role)
		if err == nil {
			err = atHome(doc)
		}
		if err != nil {
			return err
		}
		var out bytes.Buffer
		fmt.Fprintf(&out, "# Settings of chive %s, made from %s.\n", importRoles[i].name, args[0])
		writeImported(&out, c.ErrOrStderr(), doc, importRoles[i].settings)
		for j, r := range importRoles {
			if j != i && has&r.role != 0 {
				fmt.Fprintf(c.ErrOrStderr(), "the torrc describes a %s too: chive config import --role %s\n", r.name, r.name)
			}
		}
		_, err = c.OutOrStdout().Write(out.Bytes())
		return err
	}
	return c
}

// maxIncluded bounds the paths that one %include names, with those in its folders: a folder
// may have a link to itself.
const maxIncluded = 1000

// readTorrc reads a torrc and the files that it includes. The torrc itself may be a pipe, which
// the user has named; it includes only regular files.
func readTorrc(path string) ([]torrc.Line, error) {
	text, err := atomicfile.Read(path, tomlfile.MaxSize)
	if err != nil {
		return nil, fault.New(fault.Config, "torrc: %w", err)
	}
	return torrc.Lines(torrc.Source{Name: path, Text: text}, func(pattern string) ([]torrc.Source, error) {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 && !strings.ContainsAny(pattern, "*?[") {
			return nil, fmt.Errorf("%s does not exist", pattern)
		}
		var out []torrc.Source
		for i := 0; i < len(paths); i++ {
			if len(paths) > maxIncluded {
				return nil, fmt.Errorf("%s names more than %d files", pattern, maxIncluded)
			}
			if st, err := os.Stat(paths[i]); err == nil && st.IsDir() {
				inside, err := filepath.Glob(filepath.Join(paths[i], "[^.]*"))
				if err != nil {
					return nil, err
				}
				paths = slices.Insert(paths, i+1, inside...)
				continue
			}
			text, err := atomicfile.ReadRegular(paths[i], tomlfile.MaxSize)
			if err != nil {
				return nil, err
			}
			out = append(out, torrc.Source{Name: paths[i], Text: text})
		}
		return out, nil
	})
}

// atHome replaces "~" with this user's home where C tor does.
func atHome(doc *torrc.Document) error {
	for _, s := range doc.Settings {
		rest, ok := strings.CutPrefix(s.Values[0], "~")
		if !ok || !slices.Contains([]string{"data-dir", "key-dir", "log-file"}, s.Key) {
			continue
		}
		home, err := os.UserHomeDir()
		if err != nil || rest != "" && rest[0] != '/' {
			return fault.New(fault.Config, "%s: %s: the home that ~ stands for is not known: write the whole path", s.From[0].At(), s.From[0].Key)
		}
		s.Values[0] = home + rest
	}
	return nil
}

// writeImported writes the settings to out. What is lost goes to notes, too.
func writeImported(out, notes io.Writer, doc *torrc.Document, fresh func() *daemon.Settings) {
	lose := func(l torrc.Line, why string) {
		fmt.Fprintf(notes, "%s: %s %s: %s\n", l.At(), l.Key, l.Value, why)
	}
	for _, s := range doc.Settings {
		writeSetting(out, s, fresh, lose)
	}
	for _, service := range doc.Onions {
		fmt.Fprint(out, "\n[[onion]]\n")
		for _, s := range service {
			writeSetting(out, s, func() *daemon.Settings { return daemon.NewOnionSettings(new([]string)) }, lose)
		}
	}
	if len(doc.Notes) > 0 {
		fmt.Fprint(out, "\n# Lines without a setting here, or with a difference:\n")
	}
	for _, n := range doc.Notes {
		fmt.Fprintf(out, "# %s: %s %s: %s\n", n.Line.At(), n.Line.Key, n.Line.Value, n.Why)
		if !n.Same {
			lose(n.Line, n.Why)
		}
	}
}

// writeSetting writes one setting, or a comment if the program would not take it.
func writeSetting(out io.Writer, s *torrc.Setting, fresh func() *daemon.Settings, lose func(torrc.Line, string)) {
	for _, l := range s.From {
		fmt.Fprintf(out, "# %s: %s %s\n", l.At(), l.Key, l.Value)
	}
	text := s.Key + " = " + tomlValue(s, fresh) + "\n"
	if err := fresh().ReadFile("torrc", []byte(text)); err != nil {
		for _, l := range s.From {
			lose(l, err.Error())
		}
		fmt.Fprintf(out, "# %s# %v\n", text, err)
		return
	}
	fmt.Fprint(out, text)
}

// tomlValue writes the values as the option's type wants them.
func tomlValue(s *torrc.Setting, fresh func() *daemon.Settings) string {
	kind := ""
	for _, v := range fresh().All() {
		if v.Key == s.Key {
			kind = v.Type()
		}
	}
	switch kind {
	case "stringSlice", "stringArray", "stringToInt":
		quoted := make([]string, len(s.Values))
		for i, v := range s.Values {
			quoted[i] = strconv.Quote(v)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case "bool", "int", "uint64":
		return s.Values[0]
	}
	return strconv.Quote(strings.Join(s.Values, ",")) // several: a list between commas
}
