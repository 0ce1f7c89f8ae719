package daemon

import (
	"os/exec"

	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	life "github.com/chivenet/chive/internal/role"
)

// canStart reports what would keep a node with right options from starting: a data
// directory that cannot be made, or a transport's program that is not there. field
// is the option with the transports' lines.
func canStart(dataDir, field string, plugins []string) error {
	for i, line := range plugins {
		l, err := pt.ParseTransportLine(line)
		if err != nil || l.Path == "" {
			continue // the option's own check tells, or it runs already
		}
		if _, err := exec.LookPath(l.Path); err != nil {
			return options.Wrong(field, "entry %d: the transport's program: %w", i+1, err)
		}
	}
	if err := life.CheckDir(dataDir); err != nil {
		return options.Wrong("DataDir", "%w", err)
	}
	return nil
}
