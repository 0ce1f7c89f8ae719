package interop

import (
	"context"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/lab/target"
)

// countedBytes is what the transfer fetches, and countedRequest what it sends.
const (
	countedBytes   = 1 << 20
	countedRequest = 8
)

// counted sums what the events of a program say of one transfer.
type counted struct {
	read, written                                  int // STREAM_BW of the stream
	cellsRead, cellsWritten, delivered, overhead   int // CIRC_BW of its circuits
	deliveredWritten, overheadWritten, bwIn, bwOut int
}

// compareCounters fails unless the numbers of STREAM_BW, CIRC_BW and BW for the same transfer are C tor's. The stream ends within
// the second in which it began, and what it carried is told all the same. C tor may lose the end of it.
func compareCounters(t *testing.T, theirs, ours counted) {
	t.Helper()
	t.Logf("C tor: %+v; Chive: %+v", theirs, ours)
	if ours.read != countedBytes || ours.written != countedRequest {
		t.Errorf("STREAM_BW has %d and %d bytes", ours.read, ours.written)
	}
	for name, c := range map[string]counted{"C tor": theirs, "Chive": ours} {
		if c.delivered < countedBytes || c.cellsRead < c.delivered+c.overhead {
			t.Errorf("%s: CIRC_BW: %+v", name, c)
		}
		if c.bwIn < c.cellsRead {
			t.Errorf("%s: BW has read %d bytes, and the circuits %d", name, c.bwIn, c.cellsRead)
		}
	}
	near := func(what string, a, b, percent int) {
		if a < b-b*percent/100 || a > b+b*percent/100 {
			t.Errorf("%s: %d and C tor's %d", what, a, b)
		}
	}
	near("the cells", ours.cellsRead, theirs.cellsRead, 10)
	near("what they delivered", ours.delivered, theirs.delivered, 5)
	near("the bytes of the links", ours.bwIn, theirs.bwIn, 30)
}

// count has a program fetch from the target by one stream, and sums what it tells of that.
func (r *replayer) count() (c counted) {
	t := r.t
	t.Helper()
	if _, err := io.WriteString(r.conn, "GETINFO net/listeners/socks\r\nSETEVENTS STREAM STREAM_BW CIRC_BW BW\r\n"); err != nil {
		t.Fatal(err)
	}
	listener := r.until(`^250-net/listeners/socks="(.*)"$`, nil)[1]
	r.until(`^250 OK$`, nil)
	r.until(`^250 OK$`, nil)
	bandwidth := regexp.MustCompile(`^650 BW (\d+) (\d+)`)
	r.until(bandwidth.String(), nil) // what goes on now is counted from here
	over := make(chan error, 1)
	go func() {
		over <- func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			conn, err := socksclient.Dialer{Proxy: listener}.DialContext(ctx, "tcp", shared.target.Addr(target.Source))
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, countedBytes)); err != nil {
				return err
			}
			_, err = io.CopyN(io.Discard, conn, countedBytes)
			return err
		}()
	}()
	stream := r.until(`^650 STREAM (\d+) NEW `, nil)[1]
	closed := regexp.MustCompile(`^650 STREAM ` + stream + ` CLOSED `)
	ofStream := regexp.MustCompile(`^650 STREAM_BW ` + stream + ` (\d+) (\d+) `)
	ofCells := regexp.MustCompile(`^650 CIRC_BW ID=\d+ READ=(\d+) WRITTEN=(\d+) TIME=\S+ DELIVERED_READ=(\d+) OVERHEAD_READ=(\d+) DELIVERED_WRITTEN=(\d+) OVERHEAD_WRITTEN=(\d+)`)
	each := func(l string) {
		addAll(ofStream, l, &c.written, &c.read)
		addAll(ofCells, l, &c.cellsRead, &c.cellsWritten, &c.delivered, &c.overhead, &c.deliveredWritten, &c.overheadWritten)
		addAll(bandwidth, l, &c.bwIn, &c.bwOut)
	}
	r.until(closed.String(), each)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	for range 2 { // each tells of circuits before or after it tells of links
		r.until(bandwidth.String(), each)
	}
	if _, err := io.WriteString(r.conn, "SETEVENTS\r\n"); err != nil {
		t.Fatal(err)
	}
	r.until(`^250 OK$`, nil)
	return c
}

// until reads lines until one matches, and returns its groups.
func (r *replayer) until(pattern string, each func(string)) []string {
	r.t.Helper()
	if err := r.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	re := regexp.MustCompile(pattern)
	for {
		l, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("waited for %s: %v", pattern, err)
		}
		l = strings.TrimRight(l, "\r\n")
		if each != nil {
			each(l)
		}
		if m := re.FindStringSubmatch(l); m != nil {
			return m
		}
	}
}

// addAll adds the numbers of a line, if it is of that form.
func addAll(form *regexp.Regexp, line string, to ...*int) {
	m := form.FindStringSubmatch(line)
	for i := range to {
		if m != nil {
			n, _ := strconv.Atoi(m[i+1]) // the form has digits alone
			*to[i] += n
		}
	}
}
