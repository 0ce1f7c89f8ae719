package channel

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/nonblock"
)

// wire is a link's TCP connection below TLS. Reads take all that the socket holds,
// several records at a time. When it is direct, a write never waits: bytes that the
// kernel does not take, a few records at most, are kept until drain waits and writes
// them. So a goroutine with cells for an idle channel can write them itself, and
// needs no other goroutine unless the peer is slow.
type wire struct {
	net.Conn
	raw    syscall.RawConn
	socket nonblock.Writer

	// owned by the reader; drained is called before a wait, when the socket has
	// nothing more to read
	drained func()
	meter   *meter      // the link handshake's meter; nil after it
	poller  *poller     // nil if the reader never polls
	wait    bool        // tryRead may wait
	parts   bool        // Read returns errQuiet instead of waiting
	most    int         // the most space that TLS has offered for its input, which it keeps
	frames  frames      // of what TLS was given
	part    int         // bytes that TLS got of a record whose end it did not
	barren  int         // bytes of the whole records that TLS got since it last gave the reader some
	in      *wireBuffer // bytes that TLS has not asked for yet; nil if there are none
	inR     int         // in.b[inR:inW] is unread
	inW     int
	got     int
	readErr error
	tryRead func(fd uintptr) bool
	ask     func() bool // for poller; its result is in asked
	asked   error

	mu     sync.Mutex // guards what follows
	direct bool
	hold   bool        // more writes follow, so keep this one
	stuck  bool        // the kernel's buffer is full
	out    *wireBuffer // holds rest; nil when there is none
	rest   []byte      // bytes that the kernel did not take or was not offered yet
	// account counts the memory of out, and what TLS keeps for its input.
	account *account.Account
	answers int // writes of TLS itself
	shorts  int // writes of cells to come that are as short as those
}

// maxAnswers is how many times TLS itself may answer on one link. A peer can ask for
// new keys as often as it likes, with 27 bytes each time, but an honest peer asks
// only after it has sent terabytes. Answers are recognised by their size: a record
// of cells is longer, or announced by expectShort.
const (
	maxAnswers = 64
	maxAnswer  = 128 // bytes
)

// maxBarren bounds the bytes of records that TLS takes before it gives the reader something. TLS collects
// its own messages, such as new session tickets, up to 256 KiB of them, before it looks at what they are. The honest
// ones that come after the handshake have some hundred bytes.
const maxBarren = 8 << 10

// maxRest bounds the bytes that are kept. A channel stops before so many wait; only
// TLS itself goes on, with answers to a peer that does not read.
const maxRest = 2 * 64 << 10

// wireBuffer has space for several records. An idle channel has none.
type wireBuffer struct{ b [wireSpace]byte }

const wireSpace = 64 << 10

var wireBuffers = sync.Pool{New: func() any { return new(wireBuffer) }}

// newWire returns conn with direct writes, or nil if it has no socket, or a socket
// that this system cannot use without waiting. Then the writer's goroutine does all
// writing.
func newWire(conn net.Conn) *wire {
	sc, ok := conn.(syscall.Conn)
	if !ok || !nonblock.Available {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &wire{Conn: conn, raw: raw, socket: nonblock.NewWriter(raw)}
	w.tryRead = func(fd uintptr) bool {
		if w.in == nil {
			w.in = wireBuffers.Get().(*wireBuffer)
		}
		w.got, w.readErr = nonblock.Read(fd, w.in.b[:])
		if w.readErr != nonblock.ErrWait {
			return true
		}
		w.dropIn()
		return !w.wait
	}
	w.ask = func() bool {
		w.asked = w.fill(false)
		return w.asked != nonblock.ErrWait
	}
	return w
}

// setDirect makes writes direct from now on. drained will be called before each read
// that waits. Bytes that are kept count on a. The reader calls setDirect.
func (w *wire) setDirect(drained func(), a *account.Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained, w.meter = drained, nil
	w.direct, w.account = true, a
}

// quiet is what Read returns instead of waiting. TLS keeps what it has of a record, and no
// error, because this one is temporary: the next Read goes on from there.
type quiet struct{}

var errQuiet error = quiet{}

func (quiet) Error() string   { return "the peer pauses" }
func (quiet) Timeout() bool   { return false }
func (quiet) Temporary() bool { return true }

func (w *wire) Read(p []byte) (int, error) {
	if w.drained == nil || len(p) == 0 {
		n, err := w.meter.readMetered(w.Conn, p)
		for b := p[:n]; len(b) > 0; {
			b = b[w.frames.next(b):]
		}
		return n, err
	}
	if w.barren > maxBarren { // TLS asks for more only when it has read all that it got
		return 0, fault.New(fault.Protocol, "the peer sent %d bytes of TLS's own messages", w.barren)
	}
	if len(p) > w.most { // for a long record, whole or begun
		w.account.Reserve(len(p) - w.most)
		w.most = len(p)
	}
	if w.in == nil {
		err := w.fill(false)
		if err == nonblock.ErrWait {
			// Do not call it inside raw.Read: drained may close the connection, and
			// Close would wait for raw.Read to end.
			w.drained()
			if w.parts {
				return 0, errQuiet
			}
			err = w.await()
		}
		if err != nil {
			w.dropIn()
			return 0, err
		}
	}
	n := w.frames.next(w.in.b[w.inR:min(w.inW, w.inR+len(p))])
	copy(p, w.in.b[w.inR:w.inR+n])
	if w.part += n; w.frames.between() {
		w.barren += w.part
		w.part = 0
	}
	if w.inR += n; w.inR == w.inW {
		w.dropIn()
	}
	return n, nil
}

// recordHead is the length of a record's header: type, version, length.
const recordHead = 5

// recordOverhead is what TLS 1.3 adds to a record's content: the header, its type, and AES-GCM's tag.
const recordOverhead = recordHead + 1 + 16

// frames follows the TLS records in the bytes of a connection (RFC 8446, section 5.1). TLS gets
// the rest of one record at a time, and more only if these are whole records for which it has
// space: it keeps the most that it ever took, and for a record and a part of the next one, that
// was more than twice as much.
type frames struct {
	head [recordHead]byte
	got  int // bytes of head; less than all of it
	left int // bytes of the record's body that have not passed yet
}

// between reports whether what has passed is whole records.
func (f *frames) between() bool { return f.got == 0 && f.left == 0 }

// next returns how many of the bytes TLS gets, and lets these pass.
func (f *frames) next(b []byte) (n int) {
	n = f.one(b)
	for f.between() && len(b)-n >= recordHead {
		size := recordHead + int(b[n+3])<<8 + int(b[n+4])
		if n+size > len(b) {
			break
		}
		n += size
	}
	return n
}

// one returns how many of the bytes are of one record, and lets these pass.
func (f *frames) one(b []byte) (n int) {
	if f.left == 0 {
		n = copy(f.head[f.got:], b)
		if f.got += n; f.got < len(f.head) {
			return n
		}
		f.got, f.left = 0, int(f.head[3])<<8|int(f.head[4])
	}
	k := min(f.left, len(b)-n)
	f.left -= k
	return n + k
}

// await waits until there is something to read, for the next Read. C tor sends one record at a time, so
// that an upload wakes a relay once for each: a quarter of its time. To let the kernel wake it for three
// records at once (SO_RCVLOWAT, for a millisecond at most) halved the reads, but the timer doubled the
// calls of futexes, and no time was saved.
func (w *wire) await() error {
	var err error
	if w.poller != nil && w.poller.poll(w.ask) {
		err = w.asked
	} else {
		err = w.fill(true)
	}
	if err != nil {
		w.dropIn()
	}
	return err
}

// fill reads what the socket holds. If the socket holds nothing, fill waits if wait
// is set, or else returns ErrWait.
func (w *wire) fill(wait bool) error {
	w.wait = wait
	if err := w.raw.Read(w.tryRead); err != nil {
		return err
	}
	if w.readErr != nil {
		return w.readErr
	}
	if w.got == 0 {
		return io.EOF
	}
	w.inR, w.inW = 0, w.got
	if w.poller != nil {
		w.poller.got(w.got)
	}
	return nil
}

func (w *wire) dropIn() {
	if w.in != nil {
		wireBuffers.Put(w.in)
		w.in = nil
	}
}

// gather(true) makes the wire keep all writes. This ends with a write after
// gather(false), or with a call of push or drain.
func (w *wire) gather(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = on
}

// expectShort announces a record of n bytes of cells, which may be as short as an answer of TLS.
func (w *wire) expectShort(n int) {
	if n+recordOverhead > maxAnswer {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.direct {
		w.shorts++
	}
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.direct || len(p) > maxAnswer:
	case w.shorts > 0: // if TLS answers just now, its answer is taken for these cells, and they for the answer
		w.shorts--
	default:
		if w.answers++; w.answers > maxAnswers {
			return 0, fault.New(fault.Protocol, "the peer asked for new TLS keys %d times", maxAnswers)
		}
		// The last record's deadline may have passed long ago. TLS would keep the error,
		// and the next cell would cost the link.
		if err := w.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return 0, err
		}
	}
	switch {
	case !w.direct:
		return w.meter.wait(func() (int, error) { return w.Conn.Write(p) })
	case w.hold || w.stuck:
		return len(p), w.keep(p)
	case len(w.rest) > 0:
		if err := w.keep(p); err != nil {
			return 0, err
		}
		return len(p), w.offerRest()
	}
	n, err := w.offer(p)
	if err == nil && n < len(p) {
		err = w.keep(p[n:])
	}
	return len(p), err
}

// offer writes as much of p as the kernel takes.
func (w *wire) offer(p []byte) (int, error) {
	n, err := w.socket.TryWrite(p)
	w.stuck = err == nil && n < len(p)
	return n, err
}

func (w *wire) offerRest() error {
	n, err := w.offer(w.rest)
	w.rest = w.rest[n:]
	w.dropOut()
	return err
}

func (w *wire) keep(p []byte) error {
	if len(w.rest)+len(p) > maxRest {
		return fault.New(fault.Resource, "the peer does not read, and %d bytes of records wait", len(w.rest))
	}
	if w.out == nil {
		w.out = wireBuffers.Get().(*wireBuffer)
		w.rest = w.out.b[:0]
		w.account.Reserve(len(w.out.b))
	}
	w.rest = append(w.rest, p...)
	return nil
}

func (w *wire) dropOut() {
	if len(w.rest) == 0 && w.out != nil {
		w.account.Release(len(w.out.b))
		wireBuffers.Put(w.out)
		w.out, w.rest = nil, nil
	}
}

// hasKept reports whether drain has something to do.
func (w *wire) hasKept() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rest) > 0
}

// full reports whether the kernel takes no more bytes now.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck
}

// push ends gathering and offers the kept bytes to the kernel.
func (w *wire) push() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = false
	if w.stuck || len(w.rest) == 0 {
		return nil
	}
	return w.offerRest()
}

// drain writes the kept bytes, and waits for the peer if it must.
func (w *wire) drain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold, w.stuck = false, false
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.rest)
	w.rest = nil
	w.dropOut()
	return err
}

// SyscallConn returns the socket, so that callers can set options on it.
func (w *wire) SyscallConn() (syscall.RawConn, error) { return w.raw, nil }
