package cli

import (
	"errors"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/torrc"
)

// TestImportedKeys: each option that a torrc's line becomes is one of the program's.
func TestImportedKeys(t *testing.T) {
	has := map[torrc.Role]map[string]bool{}
	roles := append([]importRole{{"onion", torrc.Onion, func() *daemon.Settings { return daemon.NewOnionSettings(new([]string)) }}}, importRoles...)
	for _, r := range roles {
		has[r.role] = map[string]bool{}
		for _, v := range r.settings().All() {
			has[r.role][v.Key] = true
		}
	}
	for o := range torrc.Options {
		for _, r := range roles {
			if o.Role&r.role != 0 && !has[r.role][o.Key] {
				t.Errorf("%s: %s has no option %s", o.Name, r.name, o.Key)
			}
		}
	}
}

// TestSeveralValues: an option that takes a list between commas gets all of it.
func TestSeveralValues(t *testing.T) {
	s := &torrc.Setting{Key: "client-versions", Values: []string{"0.4.8.1", "0.4.9.1"}}
	if got := daemon.TOMLValue(s, daemon.NewAuthoritySettings); got != `"0.4.8.1,0.4.9.1"` {
		t.Error(got)
	}
}

// TestHome: "~" is the home where C tor takes it for that, and nowhere else.
func TestHome(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = t.TempDir()
		t.Setenv("HOME", home)
	}
	for _, c := range []struct{ key, value, want string }{
		{"data-dir", "~/.tor", home + "/.tor"}, {"log-file", "~/log", home + "/log"}, {"key-dir", "~/keys", home + "/keys"}, {"data-dir", "/var/~tor", "/var/~tor"},
		{"nickname", "~/x", "~/x"}, {"data-dir", "~other/x", ""},
	} {
		s := &torrc.Setting{Key: c.key, Values: []string{c.value}, From: []torrc.Line{{File: "torrc", Number: 1}}}
		switch err := daemon.AtHome(&torrc.Document{Settings: []*torrc.Setting{s}}); {
		case c.want == "" && !fault.Is(err, fault.Config), c.want != "" && (err != nil || s.Values[0] != c.want):
			t.Errorf("%s %s: %v, %v", c.key, c.value, s.Values, err)
		}
	}
}

// TestImportCodes: the exit code says whether a line was lost. Lines of another program that the
// torrc describes are not: the import of that one has them.
func TestImportCodes(t *testing.T) {
	for text, want := range map[string]struct{ plain, strict int }{
		"SocksPort 9050\nUseBridges 1":                        {0, 0},
		"SocksPort 9050\nRunAsDaemon 1":                       {exitLeftOut, exitMistake},
		"SocksPort 9050\nNoSuchOption 1":                      {exitLeftOut, exitMistake},
		"SocksPort 9050 CacheDNS":                             {exitLeftOut, exitMistake},
		"ORPort 192.0.2.1:443\nSocksPort 9050\nExitNodes a":   {0, 0},
		"ORPort 192.0.2.1:443\nSocksPort 0":                   {0, 0},
		"ORPort 192.0.2.1:443\nExitNodes a":                   {exitLeftOut, exitMistake}, // there is no proxy that would have it
		"ORPort 192.0.2.1:443\nSocksPort 9050\nRunAsDaemon 1": {exitLeftOut, exitMistake},
		"SocksPort 9050\nNumEntryGuards many":                 {exitLeftOut, exitMistake},
		"SocksPort x":                                         {exitMistake, exitMistake},
	} {
		file, _ := placeTorrc(t, text)
		code, out, notes := run(t, "config", "import", file)
		if code != want.plain || (out == "") != (code == exitMistake) {
			t.Errorf("%q: exit code %d, want %d\n%s%s", text, code, want.plain, out, notes)
		}
		made := file + ".toml"
		code, _, notes = run(t, "config", "import", "--strict", "--out", made, file)
		if _, err := os.Stat(made); code != want.strict || (err == nil) != (code == 0) {
			t.Errorf("%q, --strict: exit code %d, want %d; %v\n%s", text, code, want.strict, err, notes)
		}
	}
}

// TestImportedMode: who can read the torrc and all that it includes can read the new file, as a
// service's user must. Nobody else can: there may be a password in it.
func TestImportedMode(t *testing.T) {
	for _, c := range []struct{ torrc, part, want os.FileMode }{
		{0o644, 0o644, 0o644}, {0o600, 0o644, 0o600}, {0o644, 0o600, 0o600}, {0o640, 0o644, 0o600},
	} {
		file, _ := placeTorrc(t, "")
		part, made := file+".d", file+".toml"
		for name, f := range map[string]struct {
			text string
			mode os.FileMode
		}{file: {"%include " + part + "\n", c.torrc}, part: {"SocksPort 9050\n", c.part}} {
			if err := errors.Join(os.WriteFile(name, []byte(f.text), f.mode), os.Chmod(name, f.mode)); err != nil {
				t.Fatal(err)
			}
		}
		if code, _, notes := run(t, "config", "import", "--out", made, file); code != 0 {
			t.Fatal(code, notes)
		}
		if st, err := os.Stat(made); err != nil || st.Mode().Perm() != c.want {
			t.Errorf("%o and %o: %v %v", c.torrc, c.part, st.Mode(), err)
		}
	}
}
