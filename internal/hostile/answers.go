package hostile

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/protover"
	"github.com/chivenet/chive/internal/simnet"
)

// The errors of a hostile relay in an otherwise correct answer to a handshake, one
// bit each.
const (
	ansNoCC    = 1 << iota // no answer to a request for congestion control
	ansUnasked             // an answer without a request
	ansOddInc              // an increment far from that of the consensus
	ansUnknown             // an unknown extension
	ansCorrupt             // a bit of the answer is wrong
	ansLonger              // bytes after the answer
	ansTor1                // the other layer than the one that was negotiated
)

// honestInc is the SENDME increment of the consensus's default.
const honestInc = 31

// answerCall answers a handshake from a cell as a relay, and returns the answer's
// bytes and the relay's end of the hop.
func answerCall(keys *simnet.Keys, advertised string, cmd cell.Command, body []byte, ans byte) (reply []byte, h *hop, err error) {
	form := cell.FormOf(cmd)
	parse := form.ParseCreate
	if form == cell.FormLong {
		parse = cell.ParseCreate2 // what follows is none of a liar's business
	}
	m, err := parse(body)
	if err != nil {
		return nil, nil, err
	}
	inc, cgo := 100, false
	negotiate := func(msg []byte) ([]byte, error) {
		exts, err := cell.ParseExts(msg)
		if err != nil {
			return nil, err
		}
		var out []cell.Ext
		if _, asked := cell.FindExt(exts, cell.ExtCCRequest); asked && ans&ansNoCC == 0 || ans&ansUnasked != 0 {
			inc = honestInc
			if ans&ansOddInc != 0 {
				inc = 255
			}
			out = append(out, cell.CCResponse(uint8(inc)))
		}
		if b, asked := cell.FindExt(exts, cell.ExtSubprotoRequest); asked && len(b) > 1 && b[1] == protover.RelayCGO {
			cgo = true
		}
		if ans&ansUnknown != 0 {
			out = append(out, cell.Ext{Type: 99, Body: []byte{1}})
		}
		return cell.AppendExts(nil, out), nil
	}
	k := handshake.OfType(m.Type)
	if k == nil {
		return nil, nil, fault.New(fault.Protocol, "%v: nobody knows it", m.Type)
	}
	r := &handshake.Relay{ID: keys.Link.ID, Onion: []*handshake.NtorKeyPair{keys.Onion}, PQ: []string{advertised}}
	reply, ks, err := k.Serve(rand.Reader, r, m.Data, negotiate)
	if err != nil {
		return nil, nil, err
	}
	if form == cell.FormFast {
		h, err = relayHop(ks, false, 100)
		return reply, h, err
	}
	h, err = relayHop(ks, cgo != (ans&ansTor1 != 0), inc)
	if ans&ansCorrupt != 0 {
		reply[len(reply)/2] ^= 1
	}
	if ans&ansLonger != 0 {
		reply = append(reply, 1, 2, 3)
	}
	return binaryVec(reply), h, err
}

func binaryVec(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// answerCommand returns the command of the cell that answers cmd.
func answerCommand(cmd cell.Command) cell.Command {
	switch cmd {
	case cell.CmdCreateFast:
		return cell.CmdCreatedFast
	case cell.CmdLongCreate2:
		return cell.CmdLongCreated2
	}
	return cell.CmdCreated2
}

// linkCell returns a link cell of fixed or variable length; the body is cut if it
// is too long.
func linkCell(id uint32, cmd cell.Command, body []byte) []byte {
	if cmd.IsVariable() {
		return cell.AppendVar(nil, id, cmd, body[:min(len(body), 0xffff)])
	}
	return cell.AppendFixed(nil, id, cmd, body[:min(len(body), cell.PayloadLen)])
}
