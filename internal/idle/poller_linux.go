package idle

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

const available = true // Rest works on this system

// all has the connections of the process that may rest. A connection's mu may be held
// when it is called.
var all = poller{conns: map[uint64]*Conn{}}

// poller owns an epoll instance while there are connections.
type poller struct {
	mu    sync.Mutex // guards what follows
	epoll *epoll     // nil while there are no connections
	conns map[uint64]*Conn
	last  uint64
	// queue has the connections that rest, but are known to net, the oldest first;
	// sweeping says that a timer runs for them.
	queue    []retiree
	sweeping bool
}

// epoll is the kernel's set of sockets. Go's own poller waits for it, so that it takes
// no thread.
type epoll struct {
	fd   int
	file *os.File
}

// retiree is a connection that leaves net at a time, unless it is used before.
type retiree struct {
	c    *Conn
	turn uint16
	at   time.Time
}

// arm has the kernel tell once when c has something to read.
func (p *poller) arm(c *Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enterLocked(c); err != nil {
		return err
	}
	op := syscall.EPOLL_CTL_MOD
	if !c.added {
		op = syscall.EPOLL_CTL_ADD
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: int32(uint32(c.number)), Pad: int32(c.number >> 32)}
	var cerr error
	err := c.controlLocked(func(fd uintptr) { cerr = syscall.EpollCtl(p.epoll.fd, op, int(fd), &ev) })
	if err == nil {
		err = cerr
	}
	if err != nil {
		return fault.New(fault.Local, "epoll: %w", err)
	}
	c.added = true
	return nil
}

// enterLocked gives c a number: a file descriptor is none, because the next socket may
// get it.
func (p *poller) enterLocked(c *Conn) error {
	if p.epoll == nil {
		e, err := newEpoll()
		if err != nil {
			return err
		}
		p.epoll = e
		go panics.Contain(nil, func(error) { p.failed(e) }, func() { p.run(e) })()
	}
	if p.conns[c.number] != c {
		p.last++
		c.number, c.added = p.last, false
		p.conns[c.number] = c
	}
	return nil
}

func newEpoll() (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fault.New(fault.Local, "epoll: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, fault.New(fault.Local, "epoll: %w", err)
	}
	return &epoll{fd, os.NewFile(uintptr(fd), "epoll")}, nil
}

// remove takes c's file descriptor out of the kernel's set: it will be closed, but its
// socket will not, so that the kernel would not forget it.
func (p *poller) remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(c)
}

func (p *poller) removeLocked(c *Conn) {
	if c.added && p.epoll != nil && p.conns[c.number] == c {
		// An error says that the socket is closed: then the kernel has forgotten it.
		_ = c.controlLocked(func(fd uintptr) { _ = syscall.EpollCtl(p.epoll.fd, syscall.EPOLL_CTL_DEL, int(fd), nil) })
	}
	c.added = false
}

// forget ends the rest of a connection that will be closed.
func (p *poller) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c.number] != c {
		return
	}
	delete(p.conns, c.number)
	if len(p.conns) == 0 && p.epoll != nil {
		p.epoll.file.Close() // ends run
		p.epoll = nil
	}
}

// wake wakes a connection that cannot rest.
func (p *poller) wake(c *Conn) { go panics.Contain(nil, nil, c.waker.Wake)() }

// retire has c leave net, unless it is used before restTime is over.
func (p *poller) retire(c *Conn, turn uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := time.Duration(restTime.Load())
	p.queue = append(p.queue, retiree{c, turn, time.Now().Add(wait)})
	if !p.sweeping {
		p.sweeping = true
		p.sweepIn(wait)
	}
}

func (p *poller) sweepIn(d time.Duration) { time.AfterFunc(d, panics.Contain(nil, nil, p.sweep)) }

// sweep has those connections leave net whose time has come.
func (p *poller) sweep() {
	for r, ok := p.next(); ok; r, ok = p.next() {
		r.c.leave(r.turn)
	}
}

func (p *poller) next() (r retiree, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue, p.sweeping = nil, false
		return r, false
	}
	r = p.queue[0]
	if wait := time.Until(r.at); wait > 0 {
		p.sweepIn(wait)
		return r, false
	}
	p.queue[0] = retiree{} // the array keeps no connection
	p.queue = p.queue[1:]
	return r, true
}

// run wakes connections until the epoll instance is closed.
func (p *poller) run(e *epoll) {
	raw, err := e.file.SyscallConn()
	if err != nil {
		p.failed(e)
		return
	}
	var events [128]syscall.EpollEvent
	for {
		var n int
		var werr error
		err := raw.Read(func(fd uintptr) bool {
			n, werr = syscall.EpollWait(int(fd), events[:], 0)
			if werr == syscall.EINTR {
				n, werr = 0, nil
			}
			return n > 0 || werr != nil
		})
		if err != nil || werr != nil {
			p.failed(e)
			return
		}
		for _, ev := range events[:n] {
			if c := p.numbered(uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32); c != nil {
				p.wake(c)
			}
		}
	}
}

func (p *poller) numbered(number uint64) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[number]
}

// failed wakes all connections if the kernel's set cannot be used any more. Those that
// rest again get another set.
func (p *poller) failed(e *epoll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll != e {
		return // it was closed, because there were no connections
	}
	p.epoll = nil
	e.file.Close()
	for _, c := range p.conns {
		p.wake(c)
	}
	clear(p.conns)
}
