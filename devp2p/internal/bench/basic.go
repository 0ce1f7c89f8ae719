package bench

import (
	"context"
	"fmt"
	"time"
)

// The tables.
const (
	tableConnection = "connection"
	tableThroughput = "throughput"
	tablePing       = "ping-pong"
	tablePeers      = "peers"
	tableShares     = "shares" // of the peers; measured with them
	tableLoad       = "load"
	tableCircuits   = "circuits"
	tablePolicies   = "policies"
	tableLinks      = "links"
)

// pingSize is the size of ping-pong's messages in bytes.
const pingSize = 64

// stageRows makes rows of connections.
func stageRows(table, way, condition string, list []Stages) (out []Row) {
	for _, m := range []struct {
		name string
		of   func(Stages) time.Duration
	}{
		{stageConnect, func(s Stages) time.Duration { return s.Connect }}, {stageRLPx, func(s Stages) time.Duration { return s.RLPx }},
		{stageHello, func(s Stages) time.Duration { return s.Hello }}, {stageStatus, func(s Stages) time.Duration { return s.Status }},
		{stageAll, Stages.Total},
	} {
		var values []float64
		for _, s := range list {
			values = append(values, ms(m.of(s)))
		}
		out = append(out, Row{table, way, condition, m.name, unitMS, distOf(values)})
	}
	return out
}

// The stages of a connection.
const (
	stageConnect = "TCP or onion"
	stageRLPx    = "RLPx"
	stageHello   = "hello"
	stageStatus  = "status"
	stageAll     = "all"
)

// setups measures connections, of all kinds in turn: first those to a node of which the
// client knows nothing, with new circuits; then those to one whose descriptor it has. Each
// has a circuit of its own.
func setups(ctx context.Context, w *world) ([]Row, error) {
	sites, err := w.all(ctx, w.cfg.Sizes.Kinds)
	if err != nil {
		return nil, err
	}
	return connections(ctx, w, tableConnection, sites, w.cfg.Sizes.Firsts, w.cfg.Sizes.Connections)
}

func connections(ctx context.Context, w *world, table string, sites []*site, firsts, later int) (out []Row, err error) {
	one := func(s *site) (Stages, error) {
		r, stages, err := s.connect(ctx)
		if err != nil {
			return stages, err
		}
		r.close()
		return stages, nil
	}
	list := make([]struct{ first, later []Stages }, len(sites))
	for i := range firsts {
		w.cfg.Progress(fmt.Sprintf("first connection %d of %d", i+1, firsts))
		for j, s := range sites {
			if s.reset != nil {
				if err := s.reset(ctx); err != nil {
					return nil, fmt.Errorf("%s: %w", s.kind, err)
				}
			}
			stages, err := one(s)
			if err != nil {
				return nil, err
			}
			list[j].first = append(list[j].first, stages)
		}
	}
	for i := range later {
		w.cfg.Progress(fmt.Sprintf("connection %d of %d", i+1, later))
		for j, s := range sites {
			stages, err := one(s)
			if err != nil {
				return nil, err
			}
			list[j].later = append(list[j].later, stages)
		}
	}
	for j, s := range sites {
		out = append(out, stageRows(table, string(s.kind), caseFirst, list[j].first)...)
		out = append(out, stageRows(table, string(s.kind), caseLater, list[j].later)...)
	}
	return out, nil
}

// The cases of connections.
const (
	caseFirst = "first connection"
	caseLater = "later connections"
)

// throughput measures downloads over one connection of each kind, in turn.
func throughput(ctx context.Context, w *world) ([]Row, error) {
	sites, err := w.all(ctx, w.cfg.Sizes.Kinds)
	if err != nil {
		return nil, err
	}
	return downloads(ctx, w, tableThroughput, sites, w.cfg.Sizes.Bytes, w.cfg.Sizes.Downloads)
}

func downloads(ctx context.Context, w *world, table string, sites []*site, bytes int64, times int) (out []Row, err error) {
	open, closeAll, err := opened(ctx, sites)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	rates := make([][]float64, len(sites))
	for i := range times {
		for j, s := range sites {
			w.cfg.Progress(fmt.Sprintf("download %d of %d: %s", i+1, times, s.kind))
			took, err := open[j].get(bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: download: %w", s.kind, err)
			}
			rates[j] = append(rates[j], rate(bytes, took))
		}
	}
	for j, s := range sites {
		out = append(out, Row{table, string(s.kind), "", "download", unitRate, distOf(rates[j])})
	}
	return out, nil
}

// opened makes a connection to each site.
func opened(ctx context.Context, sites []*site) (open []*remote, closeAll func(), err error) {
	closeAll = func() {
		for _, r := range open {
			r.close()
		}
	}
	for _, s := range sites {
		r, _, err := s.connect(ctx)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		open = append(open, r)
	}
	return open, closeAll, nil
}

// blocks is in how many turns the round trips of each kind are made.
const blocks = 10

// pings measures round trips of small messages over one connection of each kind.
func pings(ctx context.Context, w *world) ([]Row, error) {
	sites, err := w.all(ctx, w.cfg.Sizes.Kinds)
	if err != nil {
		return nil, err
	}
	return pingPong(ctx, w, tablePing, sites, w.cfg.Sizes.Rounds)
}

func pingPong(ctx context.Context, w *world, table string, sites []*site, rounds int) (out []Row, err error) {
	open, closeAll, err := opened(ctx, sites)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	values := make([][]float64, len(sites))
	for b := range blocks {
		w.cfg.Progress(fmt.Sprintf("ping-pong, part %d of %d", b+1, blocks))
		for j, s := range sites {
			for range (b+1)*rounds/blocks - b*rounds/blocks {
				d, err := open[j].echo(make([]byte, pingSize))
				if err != nil {
					return nil, fmt.Errorf("%s: ping-pong: %w", s.kind, err)
				}
				values[j] = append(values[j], ms(d))
			}
		}
	}
	for j, s := range sites {
		out = append(out, Row{table, string(s.kind), "", "round trip", unitMS, distOf(values[j])})
	}
	return out, nil
}
