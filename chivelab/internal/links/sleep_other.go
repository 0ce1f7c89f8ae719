//go:build !linux

package links

import "time"

// fineSleep is nil where the runtime's own timers are all there is.
var fineSleep func(time.Duration)
