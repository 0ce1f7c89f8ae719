package benchcirc

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A Stage is one part of building a circuit. Times are in microseconds.
type Stage struct {
	Wall float64 `json:"wall_us"`
	// ClientCPU and RelayCPU are processor time as the kernel counts it, for any
	// work. RelayCPU has an entry for each relay, the nearest first, and none if the
	// relays are not this program's.
	ClientCPU float64   `json:"client_cpu_us"`
	RelayCPU  []float64 `json:"relay_cpu_us,omitempty"`
	// Crypto and RelayCrypto are the computing times of the two sides of the hop's
	// handshake, each by its own clock: the client, and the hop's relay, if it is
	// this program's.
	Crypto      float64 `json:"client_handshake_us,omitempty"`
	RelayCrypto float64 `json:"relay_handshake_us,omitempty"`
	// Ahead is the part of Crypto that was computed during the stage before, while
	// the client waited for an answer.
	Ahead float64 `json:"client_handshake_ahead_us,omitempty"`
}

// A Sample is one circuit.
type Sample struct {
	Total     float64 `json:"total_us"`
	Directory Stage   `json:"directory"`
	Hops      []Stage `json:"hops"`
}

// Stats describes the distribution of some times, in microseconds.
type Stats struct {
	Mean   float64 `json:"mean_us"`
	Median float64 `json:"median_us"`
	Min    float64 `json:"min_us"`
	Max    float64 `json:"max_us"`
	StdDev float64 `json:"stddev_us"` // of the sample: divided by n-1
	P95    float64 `json:"p95_us"`
	P99    float64 `json:"p99_us"`
}

// Machine describes the machine of the measurement.
type Machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPU   string `json:"cpu,omitempty"`
	Cores int    `json:"cores"`
	Go    string `json:"go"`
	Load  string `json:"load,omitempty"` // averages at the beginning, from the kernel
}

// Length holds the results for circuits of another length.
type Length struct {
	Hops    int      `json:"hops"`
	Failed  int      `json:"failed"`
	Stats            // of the total
	Samples []Sample `json:"samples"`
}

// A Report holds the results of a measurement. MarshalJSON adds hop1_us, hop2_us,
// ...: the hops' mean times.
type Report struct {
	TotalUS     float64 `json:"total_us"` // mean
	TotalMS     float64 `json:"total_ms"`
	Stats               // of the total
	DirectoryUS float64 `json:"directory_us"` // mean
	SuccessRate float64 `json:"success_rate"` // percent

	Handshake string   `json:"handshake"`
	Carriage  string   `json:"carriage"`  // of each hop, such as "AAA"; "-" for a hop with ntor-v3 alone
	Directory string   `json:"directory"` // "cold" or "cached"
	Relays    string   `json:"relays"`    // "processes", "in-process" or "network"
	Machine   Machine  `json:"machine"`
	Count     int      `json:"count"`
	Failed    int      `json:"failed"`
	Errors    []string `json:"errors,omitempty"` // the first few
	// Stages are the directory, "hop 1", and so on.
	Stages  []StageReport `json:"stages"`
	Samples []Sample      `json:"samples"`
	Lengths []Length      `json:"lengths,omitempty"`
}

// StageReport describes one stage over all circuits.
type StageReport struct {
	Name string `json:"name"`
	Stats
	Share float64 `json:"share"` // of the mean total, percent
	// Means over the samples.
	ClientCPU   float64   `json:"client_cpu_us"`
	RelayCPU    []float64 `json:"relay_cpu_us,omitempty"` // by relay
	Crypto      float64   `json:"client_handshake_us,omitempty"`
	RelayCrypto float64   `json:"relay_handshake_us,omitempty"`
}

// RelaysKnown reports whether the relays' processor time could be separated from the
// client's, and whether their computing time for handshakes is known.
func (r *Report) RelaysKnown() (cpu, handshakes bool) {
	return r.Relays == "processes", r.Relays != "network"
}

// MarshalJSON implements json.Marshaler.
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	b, err := json.Marshal((*plain)(r))
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	for i, s := range r.Stages {
		if i > 0 {
			b = fmt.Appendf(b, `,"hop%d_us":%s`, i, number(s.Mean))
		}
	}
	return append(b, '}'), nil
}

func number(f float64) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return []byte("null") // not finite
	}
	return b
}

// Describe computes the statistics of times; zero if there are none.
func Describe(times []float64) Stats {
	if len(times) == 0 {
		return Stats{}
	}
	t := slices.Sorted(slices.Values(times))
	var s Stats
	for _, v := range t {
		s.Mean += v / float64(len(t))
	}
	for _, v := range t {
		s.StdDev += (v - s.Mean) * (v - s.Mean)
	}
	if len(t) > 1 {
		s.StdDev = math.Sqrt(s.StdDev / float64(len(t)-1))
	}
	s.Min, s.Max = t[0], t[len(t)-1]
	s.Median, s.P95, s.P99 = Quantile(t, 0.5), Quantile(t, 0.95), Quantile(t, 0.99)
	return s
}

// Quantile interpolates between the order statistics of sorted times.
func Quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// totals returns the samples' total times.
func totals(samples []Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = s.Total
	}
	return out
}

// walls returns one stage's times: 0 is the directory, then the hops.
func walls(samples []Sample, stage int) []float64 {
	out := make([]float64, len(samples))
	for i := range samples {
		out[i] = samples[i].stage(stage).Wall
	}
	return out
}

func (s *Sample) stage(i int) *Stage {
	if i == 0 {
		return &s.Directory
	}
	return &s.Hops[i-1]
}

// summarize computes all results from the samples.
func (r *Report) summarize() {
	r.Stats = Describe(totals(r.Samples))
	r.TotalUS, r.TotalMS = r.Mean, r.Mean/1000
	r.SuccessRate = 100 * float64(len(r.Samples)) / float64(r.Count)
	r.Failed = r.Count - len(r.Samples)
	if len(r.Samples) == 0 {
		return
	}
	n := float64(len(r.Samples))
	for i := range len(r.Samples[0].Hops) + 1 {
		name := "directory"
		if i > 0 {
			name = fmt.Sprintf("hop %d", i)
		}
		st := StageReport{Name: name, Stats: Describe(walls(r.Samples, i))}
		st.Share = 100 * st.Mean / r.Mean
		for k := range r.Samples {
			s := r.Samples[k].stage(i)
			st.ClientCPU += s.ClientCPU / n
			st.Crypto += s.Crypto / n
			st.RelayCrypto += s.RelayCrypto / n
			if st.RelayCPU == nil {
				st.RelayCPU = make([]float64, len(s.RelayCPU))
			}
			for j, v := range s.RelayCPU {
				st.RelayCPU[j] += v / n
			}
		}
		r.Stages = append(r.Stages, st)
	}
	r.DirectoryUS = r.Stages[0].Mean
}
