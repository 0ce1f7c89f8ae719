package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/fault"
	draw "github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/version"
	"github.com/chivenet/chive/relay"
)

// rolePrefix begins a status: it names the role, and the version of Chive.
type rolePrefix struct {
	Role    string       `json:"role"`
	Version string       `json:"version"`
	List    *networkList `json:"network_list,omitempty"`
}

func isA(role string, list *networkList) rolePrefix { return rolePrefix{role, version.String(), list} }

type (
	proxyReport struct {
		rolePrefix
		chive.Status
		Onions []chive.OnionStatus `json:"onions,omitempty"`
	}
	relayReport struct {
		rolePrefix
		relay.Status
	}
	authorityReport struct {
		rolePrefix
		authority.Status
	}
)

// Report is the status of a running program: Text is JSON, and one of the other
// fields is not nil.
type Report struct {
	Text      []byte
	Role      string // "proxy", "onion", "relay" or "authority"
	Version   string
	List      string // whose list of the public network it uses; empty: it has a network file
	Proxy     *chive.Status
	Onions    []chive.OnionStatus // that the proxy hosts
	Relay     *relay.Status
	Authority *authority.Status

	// Log has the lines that ReadStatusAndLog asked for, and LastLine is the number of the
	// last one.
	Log      []string
	LastLine uint64
}

// parseReport reads a status, and the lines of the log that may follow it.
func parseReport(answer []byte) (*Report, error) {
	var text json.RawMessage
	var role rolePrefix
	values := json.NewDecoder(bytes.NewReader(answer))
	err := values.Decode(&text)
	if err == nil {
		err = json.Unmarshal(text, &role)
	}
	r := &Report{Text: text, Role: role.Role, Version: role.Version}
	if role.List != nil {
		r.List = role.List.String()
	}
	if err == nil {
		switch role.Role {
		case "proxy", "onion":
			var p proxyReport
			err = json.Unmarshal(text, &p)
			r.Proxy, r.Onions = &p.Status, p.Onions
		case "relay":
			r.Relay = new(relay.Status)
			err = json.Unmarshal(text, r.Relay)
		case "authority":
			r.Authority = new(authority.Status)
			err = json.Unmarshal(text, r.Authority)
		default:
			err = fault.New(fault.Local, "it is of an unknown kind %q: another version runs", role.Role)
		}
	}
	if err == nil && values.More() {
		var log logReply
		err = values.Decode(&log)
		r.Log, r.LastLine = log.Lines, log.Last
	}
	if err != nil {
		return nil, fault.New(fault.Local, "status of the running program: %w", err)
	}
	return r, nil
}

// Print writes the status for people. Texts of others, such as nicknames and problems,
// cannot steer a terminal.
func (r *Report) Print(w io.Writer, now time.Time) {
	w = printable{w}
	if r.List != "" {
		fmt.Fprintf(w, "addresses  %s\n", r.List)
	}
	switch {
	case r.Proxy != nil:
		PrintStatus(w, *r.Proxy, now)
		printOnions(w, r.Onions, now)
	case r.Relay != nil:
		printRelay(w, r.Relay, now)
	case r.Authority != nil:
		printAuthority(w, r.Authority, now)
	}
}

// printable replaces characters that are not printable, except line ends.
type printable struct{ w io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.w, draw.PrintableLines(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// PrintStatus writes a client's status for people.
func PrintStatus(w io.Writer, st chive.Status, now time.Time) {
	state := "ready"
	if !st.Bootstrap.Ready {
		state = "not ready: " + st.Bootstrap.Stage
		if st.Bootstrap.Percent < 100 {
			state = fmt.Sprintf("not ready: %d%%, %s", st.Bootstrap.Percent, st.Bootstrap.Stage)
		}
	}
	fmt.Fprintf(w, "network    %s\nstate      %s\n", st.Network, state)
	if st.Bootstrap.Problem != "" {
		fmt.Fprintf(w, "problem    %s\n", st.Bootstrap.Problem)
	}
	fmt.Fprintf(w, "up         %v\n", now.Sub(st.Started).Round(time.Second))
	if d := st.Directory; !d.ValidAfter.IsZero() {
		fmt.Fprintf(w, "directory  %d relays, %d usable; valid until %s\n", d.Relays, d.Usable, d.ValidUntil.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(w, "open       %d channels, %d circuits (and %d being built), %d streams\n", st.Channels, st.Circuits, st.Building, st.Streams)
	fmt.Fprintf(w, "traffic    %d bytes read, %d written\n", st.Read, st.Written)
	for _, b := range st.Bridges {
		notes := "its descriptor is here"
		if !b.Usable {
			notes = "not usable yet"
		}
		if b.Problem != "" {
			notes += ": " + b.Problem
		}
		fmt.Fprintf(w, "bridge     %s %s %s (%s)\n", cmp.Or(b.Fingerprint, "unknown"), b.Nickname, cmp.Or(b.Transport, "plain"), notes)
	}
	for _, g := range st.Guards {
		notes := "reachable: " + g.Reachable
		if g.Confirmed {
			notes += ", confirmed"
		}
		if !g.Usable {
			notes += ", not usable now"
		}
		fmt.Fprintf(w, "guard      %s %s (%s)\n", g.Fingerprint, g.Nickname, notes)
	}
	for _, c := range st.Open {
		fmt.Fprintf(w, "circuit    %d:", c.ID)
		for i, relay := range c.Path {
			fmt.Fprintf(w, " %.8s", relay)
			if i < len(c.Countries) {
				fmt.Fprintf(w, " {%s}", c.Countries[i])
			}
			if i < len(c.Hops) {
				fmt.Fprintf(w, " (%v)", c.Hops[i])
			}
		}
		fmt.Fprintln(w)
	}
}
