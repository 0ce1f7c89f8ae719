package cli

import (
	"testing"

	"github.com/chivenet/chive/internal/daemon"
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
