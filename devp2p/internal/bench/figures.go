package bench

import (
	"image/color"
	"time"

	"github.com/chivenet/chive/chivelab/plot"
)

// WriteFigures draws the results into a directory, each as PNG and PDF.
func WriteFigures(dir string, results []Result) error {
	for name, c := range map[string]*plot.Canvas{"connection": drawSetup(results), "speed": drawSpeed(results), "peers": drawPeers(results)} {
		if err := c.Save(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// drawSetup stacks the stages of a connection.
func drawSetup(results []Result) *plot.Canvas {
	c := plot.New("A connection, by stages (medians)")
	stages := []struct {
		name string
		of   func(Stages) time.Duration
	}{
		{"TCP or onion", func(s Stages) time.Duration { return s.Connect }},
		{"RLPx", func(s Stages) time.Duration { return s.RLPx }},
		{"hello", func(s Stages) time.Duration { return s.Hello }},
		{"status", func(s Stages) time.Duration { return s.Status }},
	}
	largest := 0.0
	for i := range results {
		sum := 0.0
		for _, s := range stages {
			sum += ms(results[i].stage(s.of))
		}
		largest = max(largest, sum)
	}
	a := c.NewAxes(90, 70, 620, 390, largest, "ms")
	for i := range results {
		x, from := a.Slot(i, len(results)), 0.0
		for j, s := range stages {
			to := from + ms(results[i].stage(s.of))
			a.Bar(x, 0.5*a.W/float64(len(results)), from, to, plot.Color(j))
			from = to
		}
		a.Label(x, string(results[i].Kind))
	}
	var names []string
	var colors []color.RGBA
	for j, s := range stages {
		names, colors = append(names, s.name), append(colors, plot.Color(j))
	}
	c.Key(740, 90, names, colors)
	return c
}

// drawSpeed has the round trips and the rate of the download side by side.
func drawSpeed(results []Result) *plot.Canvas {
	c := plot.New("Ping-pong (median), and a download")
	var trips, rates []float64
	for i := range results {
		trips, rates = append(trips, ms(median(results[i].Echo))), append(rates, results[i].Rate()/1e6)
	}
	for k, values := range [][]float64{trips, rates} {
		largest := 0.0
		for _, v := range values {
			largest = max(largest, v)
		}
		a := c.NewAxes(90+450*float64(k), 70, 350, 390, largest, []string{"ms", "MB/s"}[k])
		for i, v := range values {
			a.Bar(a.Slot(i, len(values)), 0.5*a.W/float64(len(values)), 0, v, plot.Color(i))
			a.Label(a.Slot(i, len(values)), string(results[i].Kind)+" "+plot.Number(v))
		}
	}
	return c
}

// drawPeers has a node's memory by the number of its peers.
func drawPeers(results []Result) *plot.Canvas {
	c := plot.New("Memory of a node, by the number of its peers")
	largest, slots := 0.0, 0
	for _, r := range results {
		slots += len(r.Peers)
		for _, u := range r.Peers {
			largest = max(largest, float64(u.RSS)/1e6)
		}
	}
	a := c.NewAxes(90, 70, 700, 390, largest, "MB")
	var names []string
	var colors []color.RGBA
	at := 0
	for i, r := range results {
		for _, u := range r.Peers {
			a.Bar(a.Slot(at, slots), 0.7*a.W/float64(slots), 0, float64(u.RSS)/1e6, plot.Color(i))
			a.Label(a.Slot(at, slots), plot.Number(float64(u.Peers)))
			at++
		}
		names, colors = append(names, string(r.Kind)), append(colors, plot.Color(i))
	}
	c.Key(810, 90, names, colors)
	return c
}
