//go:build !linux

package linkcheck

import "time"

var began = time.Now()

// now is a time that all of this process shares, and that nobody sets.
func now() time.Duration { return time.Since(began) }
