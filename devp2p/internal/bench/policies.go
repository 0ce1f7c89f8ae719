package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/chivenet/chive/devp2p"
)

// The sizes of what a policy is measured with: a transaction, and a body.
const (
	transactionSize = 500
	bodySize        = 1 << 20
)

// byClass is the policy that sends transactions by onions only, and has bodies come by
// addresses. It is put together here: two connections, each for its classes.
const byClass = "hybrid by class"

// policies measures all policies toward a node with an onion and an address: Chive's.
func policies(ctx context.Context, w *world) (out []Row, err error) {
	s, err := w.start(ctx, Chive, "", true)
	if err != nil {
		return nil, err
	}
	client, err := w.client(ctx)
	if err != nil {
		return nil, err
	}
	onions := devp2p.Embedded(client)
	defer onions.Close()
	transport := func(p devp2p.Policy) (*devp2p.Transport, error) {
		cfg := devp2p.Config{Policy: p}
		if p.AllowsOnion() {
			cfg.Onions = onions
		}
		return devp2p.New(cfg)
	}
	rounds := max(w.cfg.Sizes.Rounds/100, 5)
	for _, p := range devp2p.Policies {
		w.cfg.Progress("policy " + string(p))
		tr, err := transport(p)
		if err != nil {
			return nil, err
		}
		rows, err := s.policy(ctx, string(p), tr, tr, w.cfg.Sizes.Connections, rounds)
		if err = errors.Join(err, tr.Close()); err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	w.cfg.Progress("policy " + byClass)
	only, err := transport(devp2p.OnlyOnion)
	if err != nil {
		return nil, err
	}
	defer only.Close()
	clear, err := transport(devp2p.Clearnet)
	if err != nil {
		return nil, err
	}
	defer clear.Close()
	rows, err := s.policy(ctx, byClass, only, clear, w.cfg.Sizes.Connections, rounds)
	return append(out, rows...), err
}

// policy measures connections by transports: one for transactions, and one for bodies,
// which may be the same.
func (s *site) policy(ctx context.Context, name string, forTransactions, forBodies *devp2p.Transport, n, rounds int) ([]Row, error) {
	var setup, transactions, bodies []float64
	byOnion := 0
	for range n {
		tx, took, onion, err := s.through(ctx, forTransactions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if onion {
			byOnion++
		}
		body := tx
		if forBodies != forTransactions {
			var more time.Duration
			if body, more, _, err = s.through(ctx, forBodies); err != nil {
				tx.close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			took += more
		}
		setup = append(setup, ms(took))
		err = func() error {
			for range rounds {
				d, err := tx.echo(make([]byte, transactionSize))
				if err != nil {
					return err
				}
				transactions = append(transactions, ms(d))
				forTransactions.ObserveRTT(s.node.ID(), onion, d)
			}
			d, err := body.get(bodySize)
			bodies = append(bodies, ms(d))
			return err
		}()
		tx.close()
		if body != tx {
			body.close()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	row := func(measure, unit string, values []float64) Row {
		return Row{tablePolicies, name, "", measure, unit, distOf(values)}
	}
	return []Row{row("connection", unitMS, setup), row("a transaction and its answer", unitMS, transactions), row("bodies, 1 MiB", unitMS, bodies),
		row("connections by the onion", unitShare, []float64{100 * float64(byOnion) / float64(n)})}, nil
}

// through connects by a transport.
func (s *site) through(ctx context.Context, tr *devp2p.Transport) (_ *remote, took time.Duration, onion bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to, err := pubkey(s.node)
	if err != nil {
		return nil, 0, false, err
	}
	r, stages, err := connect(limited, func(ctx context.Context) (c net.Conn, err error) {
		c, route, err := tr.DialRoute(ctx, s.node)
		onion = route.Onion
		return c, err
	}, to)
	if err != nil {
		return nil, 0, false, err
	}
	stop := context.AfterFunc(ctx, func() { r.conn.Close() })
	r.stop = func() { stop() }
	return r, stages.Total(), onion, nil
}
