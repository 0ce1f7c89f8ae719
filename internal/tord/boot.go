package tord

import (
	"fmt"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/ctlwire"
)

// phase is a step of the bootstrap as C tor tells of it (control-spec, "Bootstrap phases").
type phase struct {
	from         int // Chive's percentage
	percent      int // C tor's
	tag, summary string
}

// phases are the steps that Chive can tell apart.
var phases = []phase{
	{0, 0, "starting", "Starting"},
	{10, 5, "conn", "Connecting to a relay"},
	{25, 50, "loading_descriptors", "Loading relay descriptors"},
	{78, 75, "enough_dirinfo", "Loaded enough directory info to build circuits"},
	{80, 95, "circuit_create", "Establishing a Tor circuit"},
	{100, 100, "done", "Done"},
}

// phaseOf translates how far a client has come.
func phaseOf(b chive.BootstrapStatus) phase {
	now := phases[0]
	for _, p := range phases {
		if b.Percent >= p.from {
			now = p
		}
	}
	if now.from == 25 { // 25 to 75 of Chive's are 50 to 75 of C tor's
		now.percent = min(74, 50+(b.Percent-25)/2)
	}
	return now
}

// status returns the phase as STATUS_CLIENT and GETINFO have it. A problem is no reason to give up.
func (p phase) status(problem string) string {
	level, more := "NOTICE", ""
	if problem != "" {
		level, more = "WARN", " WARNING="+ctlwire.Quote(printable(problem))+" REASON=MISC COUNT=1 RECOMMENDATION=ignore"
	}
	return fmt.Sprintf("%s BOOTSTRAP PROGRESS=%d TAG=%s SUMMARY=%s%s", level, p.percent, p.tag, ctlwire.Quote(p.summary), more)
}
