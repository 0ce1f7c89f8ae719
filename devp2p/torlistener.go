package devp2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive"

	"github.com/chivenet/chive/devp2p/internal/torctl"
)

// How long a lost control connection is waited for, the first time and at most.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// torListener is an onion service of a Tor daemon.
type torListener struct {
	net.Listener // of loopback, where the daemon sends connections
	owner        *torProxy
	key          chive.OnionKey
	unlock       func() error // lets go of the key's directory
	port         int

	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{} // the goroutine keep has ended
	closing sync.Once
	closed  error // the result of Close; written in closing

	published chan struct{} // closed when a directory has taken the descriptor

	mu      sync.Mutex
	problem error // guarded by mu: of the last upload or connection
}

func (p *torProxy) ListenOnion(ctx context.Context, keyDir string, port int) (_ OnionListener, err error) {
	if p.cfg.Control == "" {
		return nil, errors.New("devp2p: to host an onion by a Tor daemon, its control port must be given")
	}
	if network, at := torctl.Split(p.cfg.Control); network == "tcp" && !netip.MustParseAddrPort(at).Addr().IsLoopback() {
		return nil, errors.New("devp2p: the Tor daemon must be on this machine to host an onion")
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("devp2p: port %d is not from 1 to 65535", port)
	}
	l := &torListener{owner: p, port: port, unlock: func() error { return nil }, ended: make(chan struct{}), published: make(chan struct{})}
	if keyDir != "" {
		l.key, l.unlock, err = chive.OpenOnionKey(keyDir)
	} else {
		l.key, err = chive.NewOnionKey()
	}
	if err != nil {
		return nil, err
	}
	l.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	var control *torctl.Conn
	if err == nil {
		control, err = l.open(ctx)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background()) // before Close can find it
	if err == nil {
		p.mu.Lock()
		if p.closed {
			err = net.ErrClosed
		} else {
			if p.listeners == nil {
				p.listeners = map[*torListener]bool{}
			}
			p.listeners[l] = true
		}
		p.mu.Unlock()
	}
	if err != nil {
		l.cancel()
		if control != nil {
			control.Close()
		}
		if l.Listener != nil {
			l.Listener.Close()
		}
		return nil, errors.Join(err, l.unlock())
	}
	go l.keep(control)
	return l, nil
}

// open connects to the control port, and has the daemon host the onion.
func (l *torListener) open(ctx context.Context) (*torctl.Conn, error) {
	cfg := l.owner.cfg
	c, err := torctl.Dial(ctx, cfg.Control, torctl.Auth{Password: cfg.Password, CookieFile: cfg.CookieFile})
	if err != nil {
		return nil, err
	}
	// The subscription is first, so that no event of the service is missed.
	if _, err = c.Command(ctx, "SETEVENTS HS_DESC"); err == nil {
		_, err = c.Command(ctx, fmt.Sprintf("ADD_ONION %s Port=%d,%s", l.key.Text(), l.port, l.Listener.Addr()))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// keep follows the daemon's events. If the connection is lost, it makes the service
// again, until Close.
func (l *torListener) keep(c *torctl.Conn) {
	defer close(l.ended)
	for {
		stop := context.AfterFunc(l.ctx, func() { l.remove(c) })
		l.follow(c)
		c.Close()
		stop()
		if l.ctx.Err() != nil {
			return
		}
		l.owner.cfg.Log.Warn("the control port was lost, and with it the onion", "err", c.Err())
		l.note(fmt.Errorf("the connection to the control port was lost: %w", c.Err()))
		if c = l.again(); c == nil {
			return
		}
		l.owner.cfg.Log.Info("the onion is hosted again")
	}
}

// again makes the service again; nil: Close was called.
func (l *torListener) again() *torctl.Conn {
	wait := retryFirst
	for {
		select {
		case <-l.ctx.Done():
			return nil
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
		c, err := l.open(ctx)
		cancel()
		if err == nil {
			return c
		}
		l.note(err)
		wait = min(2*wait, retryMost)
	}
}

// remove takes the service away and ends the connection. The daemon would do the first
// by itself; asked, it does it at once.
func (l *torListener) remove(c *torctl.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.Command(ctx, "DEL_ONION "+l.service()); err != nil {
		l.note(err)
	}
	c.Close()
}

// follow reads the events of the service's descriptor until the connection ends.
func (l *torListener) follow(c *torctl.Conn) {
	waiting := map[string]bool{} // directories that were sent the descriptor
	taken := false
	for event := range c.Events() {
		// HS_DESC UPLOAD|UPLOADED|FAILED ADDRESS AUTH DIRECTORY ...
		f := strings.Fields(event)
		if len(f) < 5 || f[0] != "HS_DESC" || f[2] != l.service() {
			continue
		}
		switch f[1] {
		case "UPLOAD":
			if len(waiting) < 64 {
				waiting[f[4]] = true
			}
		case "UPLOADED":
			delete(waiting, f[4])
			taken = true
		case "FAILED":
			delete(waiting, f[4])
			l.note(errors.New("a directory has not taken the descriptor"))
		}
		if taken && len(waiting) == 0 {
			l.note(nil)
			select {
			case <-l.published:
			default:
				close(l.published)
			}
		}
	}
}

func (l *torListener) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = err
}

// service is the address as the control port has it, without ".onion".
func (l *torListener) service() string { return strings.TrimSuffix(l.key.Address(), ".onion") }

// Onion implements OnionListener.
func (l *torListener) Onion() Onion3 { return Onion3(l.key.Address()) }

// Addr returns the onion and its port.
func (l *torListener) Addr() net.Addr {
	return onionAddress(fmt.Sprintf("%s:%d", l.key.Address(), l.port))
}

// onionAddress is the address of an onion service.
type onionAddress string

func (onionAddress) Network() string  { return "tor" }
func (a onionAddress) String() string { return string(a) }

// Accept returns the next connection. Its addresses are the onion's: those of loopback
// say nothing.
func (l *torListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return torConn{c, l.Addr()}, nil
}

type torConn struct {
	net.Conn
	onion net.Addr
}

func (c torConn) LocalAddr() net.Addr  { return c.onion }
func (c torConn) RemoteAddr() net.Addr { return onionAddress("onion client") }

// WaitPublished implements OnionListener: it waits until the directories to which the daemon
// has sent the descriptor have taken it.
func (l *torListener) WaitPublished(ctx context.Context) error {
	select {
	case <-l.published:
		return nil
	case <-l.ctx.Done():
		return net.ErrClosed
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return errors.Join(fmt.Errorf("devp2p: the onion is not published: %w", context.Cause(ctx)), l.problem)
	}
}

// Close takes the service away, and waits until no goroutine of it is left.
func (l *torListener) Close() error {
	l.closing.Do(func() {
		l.owner.mu.Lock()
		delete(l.owner.listeners, l)
		l.owner.mu.Unlock()
		l.cancel()
		<-l.ended
		l.closed = errors.Join(l.Listener.Close(), l.unlock())
	})
	return l.closed
}
