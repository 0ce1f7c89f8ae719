package daemon

import (
	"os"
	"regexp"
	"testing"
)

// offered is a setting that a packaged file offers in a comment, or the head of a table.
var offered = regexp.MustCompile(`(?m)^#([a-z][a-z-]* = |\[\[)`)

// TestPackagedSettings: the files of the packages are right as they are and when a user takes
// the comments off all settings that they offer.
func TestPackagedSettings(t *testing.T) {
	for name, s := range map[string]func() *Settings{
		"proxy":     NewProxySettings,
		"onion":     func() *Settings { return NewOnionSettings(new([]string)) },
		"relay":     NewRelaySettings,
		"authority": NewAuthoritySettings,
	} {
		doc, err := os.ReadFile("../../packaging/etc/" + name + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		if err := s().ReadFile(name, doc); err != nil {
			t.Error("as it is:", err)
		}
		if name == "proxy" { // it has a second value for a key that is set
			doc = regexp.MustCompile(`(?m)^socks = .*$`).ReplaceAll(doc, nil)
		}
		if !offered.Match(doc) {
			t.Errorf("%s offers nothing", name)
		}
		if err := s().ReadFile(name, offered.ReplaceAll(doc, []byte("$1"))); err != nil {
			t.Error("with all settings:", err)
		}
	}
}
