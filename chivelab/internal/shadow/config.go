package shadow

import (
	"fmt"
	"strconv"

	"github.com/chivenet/chive/chivelab/internal/shadowfile"
	"github.com/chivenet/chive/internal/fault"
)

// maxKinds bounds the edges of the graph, which has one from each kind of link to each.
const maxKinds = 500

// config is the file that the simulator reads.
func (p *plan) config() ([]byte, error) {
	places := new(shadowfile.Places)
	for _, h := range p.hosts {
		places.Number(placeOf(h.access))
	}
	if places.Len() > maxKinds {
		return nil, fault.New(fault.Config, "%s: nodes have %d pairs of delay and loss, and %d are the most", p.File.Name, places.Len(), maxKinds)
	}
	c := shadowfile.New(shadowfile.General{StopTime: fmt.Sprintf("%d s", int64(p.stop().Seconds())), Seed: p.File.Seed & (1<<32 - 1), Template: templateDir,
		Progress: true, LogLevel: "warning"}, places)
	count := map[string]int{}
	for _, h := range p.hosts {
		hc := &shadowfile.Host{Node: places.Number(placeOf(h.access)), Addr: h.addr.String(),
			Up: shadowfile.Bits(rateOf(h.access.Up)), Down: shadowfile.Bits(rateOf(h.access.Down))}
		for _, x := range p.processes(h, count[h.role]) {
			pc := shadowfile.Process{Path: x.path, Args: x.args, Start: fmt.Sprintf("%d ms", x.start.Milliseconds()), End: shadowfile.Running}
			if x.ends {
				pc.End = shadowfile.Exited
			}
			hc.Processes = append(hc.Processes, pc)
		}
		count[h.role]++
		if err := c.Add(h.name, strconv.Quote(h.label), hc); err != nil {
			return nil, err
		}
	}
	return c.Text()
}
