package tord

import (
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/fault"
)

// listWord is a word after a ControlPort's address that C tor does not have: a file with what the port's controllers
// may do.
const listWord = "AllowList="

// cutFold removes a prefix, whatever the case of its letters.
func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// readList reads the allow list of a port.
func (p *plan) readList(port *controlPort, path string) error {
	switch {
	case port.rules != nil:
		return fault.New(fault.Config, "a port has one %s", listWord)
	case !filepath.IsAbs(path):
		return fault.New(fault.Config, "%s%s: give an absolute path", listWord, path)
	}
	text, err := atomicfile.ReadRegular(path, control.MaxRules)
	if err != nil {
		return fault.New(fault.Config, "%s%w", listWord, err)
	}
	port.list = path
	port.rules, err = control.ParseRules(path, text)
	return err
}
