package idle

import (
	"os"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Socket is a socket that may be waited for.
type Socket struct {
	raw    syscall.RawConn
	waker  Waker
	number uint64 // unique: a file descriptor is not, because the next socket may get it
	added  bool   // guarded by all.mu
}

// Watch prepares to wait for a socket. Forget must be called in the end.
func Watch(raw syscall.RawConn, w Waker) (*Socket, error) { return all.watch(raw, w) }

// Wait returns at once. When the socket has something to read, has ended or has failed,
// Wake runs, once, in a goroutine of its own. It does not run when the socket is closed
// here.
func (s *Socket) Wait() error { return all.wait(s) }

// Forget ends the wait. Wake may still run if it has begun at the same time.
func (s *Socket) Forget() { all.forget(s) }

// all has the sockets of the process.
var all = poller{sockets: map[uint64]*Socket{}}

// poller owns an epoll instance while there are sockets.
type poller struct {
	mu      sync.Mutex // guards what follows
	epoll   *epoll     // nil while there are no sockets
	sockets map[uint64]*Socket
	last    uint64
}

// epoll is the kernel's set of sockets. Go's own poller waits for it, so that it takes
// no thread.
type epoll struct {
	fd   int
	file *os.File
}

func (p *poller) watch(raw syscall.RawConn, w Waker) (*Socket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil {
		e, err := newEpoll()
		if err != nil {
			return nil, err
		}
		p.epoll = e
		go panics.Contain(nil, func(error) { p.failed(e) }, func() { p.run(e) })()
	}
	p.last++
	s := &Socket{raw: raw, waker: w, number: p.last}
	p.sockets[s.number] = s
	return s, nil
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

func (p *poller) wait(s *Socket) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll == nil || p.sockets[s.number] == nil {
		return errNone
	}
	op := syscall.EPOLL_CTL_MOD
	if !s.added {
		op = syscall.EPOLL_CTL_ADD
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: int32(uint32(s.number)), Pad: int32(s.number >> 32)}
	var cerr error
	err := s.raw.Control(func(fd uintptr) { cerr = syscall.EpollCtl(p.epoll.fd, op, int(fd), &ev) })
	if err == nil {
		err = cerr
	}
	if err != nil {
		return fault.New(fault.Local, "epoll: %w", err)
	}
	s.added = true
	return nil
}

func (p *poller) forget(s *Socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sockets[s.number] == nil {
		return
	}
	delete(p.sockets, s.number)
	if s.added {
		// An error says that the socket is closed: then the kernel has forgotten it.
		_ = s.raw.Control(func(fd uintptr) { _ = syscall.EpollCtl(p.epoll.fd, syscall.EPOLL_CTL_DEL, int(fd), nil) })
	}
	if len(p.sockets) == 0 && p.epoll != nil {
		p.epoll.file.Close() // ends run
		p.epoll = nil
	}
}

// run wakes sockets until the epoll instance is closed.
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
			if s := p.socket(uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32); s != nil {
				go panics.Contain(nil, nil, s.waker.Wake)()
			}
		}
	}
}

func (p *poller) socket(number uint64) *Socket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets[number]
}

// failed wakes all sockets if the kernel's set cannot be used any more: goroutines then
// wait for them.
func (p *poller) failed(e *epoll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll != e {
		return // it was closed, because there were no sockets
	}
	p.epoll = nil
	e.file.Close()
	for n, s := range p.sockets {
		delete(p.sockets, n)
		go panics.Contain(nil, nil, s.waker.Wake)()
	}
}
