package shadow

import (
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/shadowfile"
)

// rateOf is a direction's rate in bits a second.
func rateOf(d links.Direction) int64 { return shadowfile.Rate(d.Rules.Rate) }

// placeOf is what the graph knows of a link.
func placeOf(a links.Access) shadowfile.Place {
	return shadowfile.Place{Up: a.Up.Rules.Delay, Down: a.Down.Rules.Delay, UpLoss: a.Up.Rules.Loss, DownLoss: a.Down.Rules.Loss}
}
