package tord

import (
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
)

// cutFold removes a prefix, whatever the case of its letters.
func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// readList reads the allow list of a port.
func (p *plan) readList(port *controlPort, path string) error {
	if port.rules != nil {
		return fault.New(fault.Config, "a port has one %s", daemon.AllowList)
	}
	rules, err := control.ReadRules(path)
	if err != nil {
		return fault.New(fault.Config, "%s%w", daemon.AllowList, err)
	}
	port.list, port.rules = path, rules
	return nil
}
