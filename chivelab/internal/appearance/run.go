package appearance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/panics"
)

// Plan says what to run.
type Plan struct {
	Tor      string // the program of the authorities and of the onion service; empty: "tor" in PATH
	Subjects []Subject
	Clients  int           // of each subject, and half as many, but two at least, in each other role
	Idle     time.Duration // from the first connection until the first use
	Delay    time.Duration // of the links between clients and their guards, one way
	Log      *slog.Logger
}

// Seen is what a run has recorded.
type Seen struct {
	views []*view
}

// Run starts the network, and all clients of all subjects at the same time, and returns what was seen
// of them when their scripts are done.
func Run(ctx context.Context, p Plan) (s *Seen, err error) {
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	l := recording
	l.delay = p.Delay
	nw, err := startNetwork(ctx, p.Tor, l, p.Log)
	if err != nil {
		return nil, err
	}
	closed := sync.OnceValue(nw.close)
	defer func() { err = errors.Join(err, closed()) }()
	var clients []*client
	for n := range p.Clients { // in turns, so that a subject's clients are not all the first
		for i := range p.Subjects {
			for _, as := range roles {
				if as != asClient && (p.Subjects[i].Plain || n >= max(2, p.Clients/2)) {
					continue
				}
				c, err := nw.newClient(len(clients), &p.Subjects[i], as)
				if err != nil {
					return nil, err
				}
				clients = append(clients, c)
			}
		}
	}
	alive := make([]bool, len(clients))
	errs := make([]error, len(clients))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(panics.Contain(p.Log, func(err error) { errs[i] = err }, func() {
			if errs[i] = c.run(ctx, nw, p.Idle, &alive[i]); errs[i] != nil {
				cancel()
			}
		}))
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := closed(); err != nil {
		return nil, err
	}
	s = new(Seen)
	for i, c := range clients {
		v := nw.rec.view(c)
		v.keepAlive = alive[i]
		s.views = append(s.views, v)
	}
	return s, nil
}

// Row is one comparison.
type Row struct {
	Name, Where, What, Rule string
	First, Second           string // what the two subjects showed
	Different               bool
	Unknown                 bool // there is too little to compare
}

// Compare makes the table of two subjects.
func (s *Seen) Compare(first, second string) []Row { return s.compare(features(), first, second) }

func (s *Seen) compare(all []row, first, second string) []Row {
	var rows []Row
	for _, f := range all {
		a, b := s.values(first, &f), s.values(second, &f)
		different, known := f.rule.differ(a, b)
		rows = append(rows, Row{f.name, f.where, f.what, f.rule.String(), f.rule.show(a), f.rule.show(b), different && known, !known})
	}
	return rows
}

func (s *Seen) values(subject string, f *row) [][]string {
	var out [][]string
	for _, v := range s.views {
		if v.subject == subject && v.role == f.as {
			out = append(out, f.see(v))
		}
	}
	return out
}
