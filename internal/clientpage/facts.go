package clientpage

import (
	"fmt"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/page"
)

// facts are the lines of chive status, without those that the tables of the page have.
func facts(st *chive.Status) (out []page.Fact) {
	add := func(name, format string, args ...any) {
		out = append(out, page.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	add("network", "%s", st.Network)
	if b := st.Bootstrap; b.Ready {
		add("state", "ready")
	} else {
		add("state", "not ready: %d%%, %s", b.Percent, b.Stage)
	}
	if p := st.Bootstrap.Problem; p != "" {
		add("problem", "%s", p)
	}
	add("up since", "%s", utc(st.Started))
	if d := st.Directory; !d.ValidAfter.IsZero() {
		add("directory", "%d relays, %d usable; valid until %s", d.Relays, d.Usable, utc(d.ValidUntil))
	}
	add("open", "%d channels, %d circuits (and %d being built), %d streams", st.Channels, st.Circuits, st.Building, st.Streams)
	add("traffic", "%d bytes read, %d written", st.Read, st.Written)
	for _, b := range st.Bridges {
		note := "its descriptor is here"
		if !b.Usable {
			note = "not usable yet"
		}
		if b.Problem != "" {
			note += ": " + b.Problem
		}
		name := b.Nickname
		if name == "" {
			name = short(b.Fingerprint)
		}
		transport := b.Transport
		if transport == "" {
			transport = "plain"
		}
		add("bridge", "%s (%s): %s", name, transport, note)
	}
	return out
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
