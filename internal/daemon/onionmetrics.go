package daemon

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/metrics"
)

// registry returns the metrics of the services, by their labels: their addresses are in
// none.
func (o *onions) registry() *metrics.Registry {
	r := new(metrics.Registry)
	register(r, o.status())
	return r
}

// register names the metrics of services in r.
func register(r *metrics.Registry, all []chive.OnionStatus) {
	for _, st := range all {
		gauge := func(name, help string, n int) {
			r.GaugeFunc(fmt.Sprintf(`chive_onion_%s{service=%q}`, name, st.Name), help, func() int64 { return int64(n) })
		}
		counter := func(name, help string, n uint64) {
			r.Counter(fmt.Sprintf(`chive_onion_%s_total{service=%q}`, name, st.Name), help).Add(n)
		}
		published, uploaded := 0, 0
		if st.Published {
			published = 1
		}
		if !st.Uploaded.IsZero() {
			uploaded = int(st.Uploaded.Unix())
		}
		gauge("published", "1 if a descriptor of the onion service was taken once, or fetched back with appearance fast, otherwise 0.", published)
		gauge("introduction_points", "Relays at which clients can ask for the onion service.", len(st.IntroductionPoints))
		gauge("uploaded_timestamp_seconds", "When a directory last took a descriptor, in Unix time; 0: none did.", uploaded)
		gauge("directories_missing", "Directories that have not taken the newest descriptors.", st.Missing)
		gauge("circuits", "Circuits of clients to the onion service.", st.Circuits)
		gauge("streams", "Open connections of clients of the onion service.", st.Streams)
		counter("introductions", "Introductions that came to the onion service.", st.Introductions)
		counter("introductions_rejected", "Introductions that were too many, unreadable or repeated.", st.Rejected)
		counter("rendezvous_failed", "Clients that the onion service could not meet.", st.Failed)
		counter("streams_opened", "Connections that clients opened.", st.StreamsOpened)
		counter("streams_refused", "Connections that were more than a circuit may have.", st.StreamsRefused)
		if w := st.PoW; w != nil {
			gauge("pow_suggested_effort", "Effort that the onion service asks of its clients' proofs of work.", int(w.SuggestedEffort))
			gauge("pow_waiting", "Introductions that wait for their turn.", w.Waiting)
			counter("pow_verified", "Proofs of work that were accepted.", w.Verified)
			for why, n := range w.Refused {
				r.Counter(fmt.Sprintf(`chive_onion_pow_refused_total{service=%q,reason=%q}`, st.Name, why), "Proofs of work that were refused, by the reason.").Add(n)
			}
		}
	}
}

// printOnions writes the state of onion services for people.
func printOnions(w io.Writer, all []chive.OnionStatus, now time.Time) {
	for _, st := range all {
		state := "published"
		if !st.Published {
			state = "not published yet"
		}
		upload := "no descriptor uploaded"
		if !st.Uploaded.IsZero() {
			upload = fmt.Sprintf("descriptor uploaded %v ago", now.Sub(st.Uploaded).Round(time.Second))
		}
		if st.Missing > 0 {
			upload += fmt.Sprintf(", %d directories lack it", st.Missing)
		}
		who := "everybody may connect"
		if st.AuthorizedClients > 0 {
			who = fmt.Sprintf("%d authorized clients", st.AuthorizedClients)
		}
		fmt.Fprintf(w, "onion      %s (%s)\n", st.Address, st.Name)
		fmt.Fprintf(w, "  state    %s; %s; %s\n", state, upload, who)
		fmt.Fprintf(w, "  points   %s\n", strings.Join(append(st.IntroductionPoints, fmt.Sprintf("(%d being built)", st.Launching)), " "))
		fmt.Fprintf(w, "  clients  %d circuits, %d streams open; %d streams in all, %d refused\n", st.Circuits, st.Streams, st.StreamsOpened, st.StreamsRefused)
		fmt.Fprintf(w, "  asked    %d introductions, %d rejected; %d clients not met\n", st.Introductions, st.Rejected, st.Failed)
		if p := st.PoW; p != nil {
			refused := uint64(0)
			for _, n := range p.Refused {
				refused += n
			}
			fmt.Fprintf(w, "  work     effort %d suggested; %d clients wait; %d proofs accepted, %d refused\n", p.SuggestedEffort, p.Waiting, p.Verified, refused)
		}
		if st.Problem != "" {
			fmt.Fprintf(w, "  problem  %s\n", st.Problem)
		}
	}
}
