package channel

import (
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/nonblock"
)

// wire is a link's TCP connection below TLS. Reads take all that the socket
// holds, several records at a time. When it is direct, a write never waits:
// what the kernel does not take is kept, some records at most, until drain
// waits for it. So whoever has cells for an idle channel can write them on the
// spot, and needs no other goroutine unless the peer is slow.
type wire struct {
	net.Conn
	raw    syscall.RawConn
	socket *nonblock.Writer

	// owned by the reader; drained is called when the socket has nothing more
	// to read, before waiting
	drained func()
	meter   *meter      // of the link handshake; nil after it
	poller  *poller     // nil when the reader waits at once
	wait    bool        // tryRead waits
	in      *wireBuffer // what was read beyond what TLS wanted; nil when there is none
	inR     int         // in.b[inR:inW] is unread
	inW     int
	got     int
	readErr error
	tryRead func(fd uintptr) bool
	ask     func() bool // for poller; what came of it is in asked
	asked   error

	mu     sync.Mutex // guards what follows
	direct bool
	hold   bool        // more is to come: writes are kept
	stuck  bool        // the kernel's buffer is full
	out    *wireBuffer // holds rest; nil when there is none
	rest   []byte      // what the kernel did not take, or was not offered yet
	// account counts out while it is there.
	account *account.Account
	answers int // of TLS itself
}

// maxAnswers is how often TLS itself may answer on one link: a peer can ask for
// new keys as often as it likes, each time for the price of 27 bytes, and no
// honest one asks before it has sent terabytes. Answers are told by their size: a
// record of cells is longer.
const (
	maxAnswers = 64
	maxAnswer  = 128 // bytes
)

// maxRest bounds what is kept. A channel stops before so much waits; what goes on
// is TLS itself, which answers a peer that does not read.
const maxRest = 2 * 64 << 10

// wireBuffer is room for several records. An idle channel has none.
type wireBuffer struct{ b [64 << 10]byte }

var wireBuffers = sync.Pool{New: func() any { return new(wireBuffer) }}

// newWire returns conn with direct writes, or nil when it has no socket, or one
// that cannot be tried here: then the writer's goroutine does all writing.
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

// setDirect makes writes direct from now on, and has drained called whenever a
// read is going to wait. What is kept counts on the account. The reader calls it.
func (w *wire) setDirect(drained func(), a *account.Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained, w.meter = drained, nil
	w.direct, w.account = true, a
}

func (w *wire) Read(p []byte) (int, error) {
	if w.drained == nil || len(p) == 0 {
		return w.meter.readMetered(w.Conn, p)
	}
	if w.in == nil {
		err := w.fill(false)
		if err == nonblock.ErrWait {
			// Not inside raw.Read: what drained does may close the connection,
			// which would wait for raw.Read to end.
			w.drained()
			if w.poller == nil || !w.poller.poll(w.ask) {
				err = w.fill(true)
			} else {
				err = w.asked
			}
		}
		if err != nil {
			w.dropIn()
			return 0, err
		}
	}
	n := copy(p, w.in.b[w.inR:w.inW])
	if w.inR += n; w.inR == w.inW {
		w.dropIn()
	}
	return n, nil
}

// fill reads what the socket holds, and waits for that if told to: otherwise the
// error is ErrWait when it is nothing.
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

// gather has what is written from now on kept, until it is called with false and
// there is one more write, or push or drain is called.
func (w *wire) gather(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = on
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.direct && len(p) <= maxAnswer {
		if w.answers++; w.answers > maxAnswers {
			return 0, fault.New(fault.Protocol, "the peer has asked for new keys %d times", maxAnswers)
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

// offer gives the kernel what it takes of p.
func (w *wire) offer(p []byte) (int, error) {
	n, err := w.socket.Write(p)
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
		return fault.New(fault.Resource, "the peer does not read: %d bytes of records wait", len(w.rest))
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

// waits reports whether drain has something to do.
func (w *wire) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rest) > 0
}

// full reports whether the kernel takes no more for now.
func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck
}

// push ends gathering, and offers what is kept to the kernel.
func (w *wire) push() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = false
	if w.stuck || len(w.rest) == 0 {
		return nil
	}
	return w.offerRest()
}

// drain writes what is kept, and waits for the peer.
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

// SyscallConn gives the socket to who sets options on it.
func (w *wire) SyscallConn() (syscall.RawConn, error) { return w.raw, nil }
