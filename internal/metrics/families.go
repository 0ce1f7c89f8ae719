package metrics

import "slices"

// Family is what all metrics of one name have in common, for documents.
type Family struct {
	Name   string
	Type   string   // counter, gauge or histogram
	Help   string   // of the first
	Labels []string // the labels that its metrics have, as in `hop="2"`
}

// Families returns the registry's families in the order of their names. It calls no
// function of a metric.
func (r *Registry) Families() (all []Family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.entries {
		e := &r.entries[i]
		if len(all) == 0 || all[len(all)-1].Name != e.family {
			all = append(all, Family{Name: e.family, Type: e.metric.kind(), Help: e.help})
		}
		f := &all[len(all)-1]
		for _, l := range labelPair.FindAllString(e.labels, -1) {
			if !slices.Contains(f.Labels, l) {
				f.Labels = append(f.Labels, l)
			}
		}
	}
	return all
}
