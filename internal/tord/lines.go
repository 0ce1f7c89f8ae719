package tord

import (
	"errors"
	"fmt"

	"github.com/chivenet/chive"
)

// circuitEvent returns the text of a CIRC event (control-spec, "Circuit status changed"). What Chive does not
// tell, such as the purpose, is left out.
func circuitEvent(e *chive.CircuitEvent) string {
	s := fmt.Sprintf("%d %s", e.ID, [...]string{chive.CircuitBuilding: "LAUNCHED", chive.CircuitOpen: "BUILT", chive.CircuitFailed: "FAILED", chive.CircuitClosed: "CLOSED"}[e.State])
	if len(e.Path) > 0 {
		s += " " + path(e.Path, e.Nicknames)
	}
	switch e.State {
	case chive.CircuitFailed:
		if errors.Is(e.Err, chive.ErrTimeout) {
			return s + " REASON=TIMEOUT"
		}
		return s + " REASON=NONE"
	case chive.CircuitClosed:
		if e.Err == nil {
			return s + " REASON=FINISHED"
		}
		return s + " REASON=DESTROYED"
	}
	return s
}

// streamEvent returns the text of a STREAM event (control-spec, "Stream status changed"), without the
// destination.
func streamEvent(e *chive.StreamEvent) string {
	s := fmt.Sprintf("%d %s %d %s", e.ID, [...]string{chive.StreamOpening: "NEW", chive.StreamOpen: "SUCCEEDED", chive.StreamFailed: "CLOSED", chive.StreamClosed: "CLOSED"}[e.State], e.Circuit, noTarget)
	reason, ok := chive.EndReasonOf(e.Err)
	switch {
	case e.State != chive.StreamFailed && e.State != chive.StreamClosed:
	case ok:
		s += " REASON=END REMOTE_REASON=" + reason.String()
	case e.Err == nil:
		s += " REASON=DONE"
	case errors.Is(e.Err, chive.ErrTimeout):
		s += " REASON=TIMEOUT"
	default:
		s += " REASON=MISC"
	}
	return s
}
