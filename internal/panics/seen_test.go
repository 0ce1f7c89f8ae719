package panics

import (
	"strconv"
	"testing"
)

// TestSeenIsBounded: places that a peer finds one after another do not fill the
// log, or the memory.
func TestSeenIsBounded(t *testing.T) {
	var s seen
	n := 0
	for i := range 10 * maxPlaces {
		if s.first(strconv.Itoa(i)) {
			n++
		}
	}
	if n != maxPlaces || len(s.where) != maxPlaces || s.first("0") {
		t.Fatalf("%d places of %d, %d kept", n, 10*maxPlaces, len(s.where))
	}
}
