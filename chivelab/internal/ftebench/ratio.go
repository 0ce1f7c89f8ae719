package ftebench

import "slices"

// A Ratio is a pair's throughput divided by that of another project's program,
// with the same number of connections, in the same run.
type Ratio struct {
	Kind        string  `json:"kind"`
	Format      string  `json:"format"`
	To          string  `json:"to"` // Fteproxy in the same format, or Obfs4
	Connections int     `json:"connections"`
	Up          float64 `json:"up"`
	Down        float64 `json:"down"`
	Iperf       float64 `json:"iperf_up,omitempty"`
}

// compare fills in the ratios.
func (r *Report) compare() {
	foreign := []string{Fteproxy, Obfs4}
	for _, p := range r.Pairs {
		if slices.Contains(foreign, p.Kind) {
			continue
		}
		for _, o := range r.Pairs {
			if !slices.Contains(foreign, o.Kind) || o.Format != "" && o.Format != p.Format {
				continue
			}
			for i := range min(len(p.Points), len(o.Points)) {
				a, b := &p.Points[i], &o.Points[i]
				r.Ratios = append(r.Ratios, Ratio{
					Kind: p.Kind, Format: p.Format, To: o.Kind, Connections: a.Connections,
					Up: over(a.Up, b.Up), Down: over(a.Down, b.Down), Iperf: over(a.Iperf, b.Iperf),
				})
			}
		}
	}
}

// over returns a/b, or 0 if that is not a number.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
