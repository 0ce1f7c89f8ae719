package linkcheck

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// phase is what a packet measures.
type phase uint8

const (
	delays phase = iota + 1 // small and rare: none waits for another
	losses                  // small and many, slower than the link
	rates                   // large, and faster than the link
)

// headerSize is the size of what a packet says: phase, number and time.
const headerSize = 13

// ipHeaders is the size of the headers of IPv4 and UDP.
const ipHeaders = 28

// Volley is a row of packets. Size is that of the IP packets.
type Volley struct {
	Phase phase
	Count int
	Size  int
	Every time.Duration // between two packets
}

// behind is how many packets at most go out at once.
const behind = 64

// Send sends volleys, with a pause after each.
func Send(c net.PacketConn, to net.Addr, volleys []Volley, pause time.Duration, progress func(done, of int)) error {
	all, done := 0, 0
	for _, v := range volleys {
		all += v.Count
	}
	for _, v := range volleys {
		b := make([]byte, v.Size-ipHeaders)
		b[0] = byte(v.Phase)
		began := time.Now()
		for i := range v.Count {
			switch wait := time.Duration(i)*v.Every - time.Since(began); {
			case wait > 0:
				time.Sleep(wait)
			case wait < -behind*v.Every: // after a stall, the devices' queues must not overflow
				began = began.Add(-wait - behind*v.Every)
			}
			binary.BigEndian.PutUint32(b[1:], uint32(i))
			binary.BigEndian.PutUint64(b[5:], uint64(now()))
			if _, err := c.WriteTo(b, to); err != nil {
				return fault.New(fault.Local, "send a packet over the emulated link: %w", err)
			}
			done++
			progress(done, all)
		}
		time.Sleep(pause)
	}
	return nil
}

// recordSize is the size of a record of Receive: a packet's header and when it came.
const recordSize = headerSize + 8

// Receive writes a record of each packet, and an empty one when it begins. It returns when the
// connection is closed.
func Receive(c net.PacketConn, w io.Writer) error {
	if _, err := w.Write(make([]byte, recordSize)); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	b := make([]byte, 1<<16)
	for {
		n, _, err := c.ReadFrom(b)
		if err != nil {
			return nil
		}
		if n < headerSize {
			continue
		}
		r := make([]byte, recordSize)
		copy(r, b[:headerSize])
		binary.BigEndian.PutUint64(r[headerSize:], uint64(now()))
		if _, err := w.Write(r); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
}

// arrival is a record.
type arrival struct {
	phase     phase
	number    int
	sent, got time.Duration
}

func parse(r []byte) arrival {
	return arrival{phase(r[0]), int(binary.BigEndian.Uint32(r[1:])), time.Duration(binary.BigEndian.Uint64(r[5:])), time.Duration(binary.BigEndian.Uint64(r[headerSize:]))}
}
