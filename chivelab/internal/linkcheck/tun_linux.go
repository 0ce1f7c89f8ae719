package linkcheck

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// attachTUN makes hosts whose programs are this one.
func attachTUN(n *links.Net, c Config, from, to links.Access) (*attached, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	b, err := linktun.Attach(n, receiver, to, linktun.Command{Args: append(append([]string{}, c.Probe...), "receive"), Output: w})
	if err != nil {
		r.Close()
		w.Close()
		return nil, err
	}
	var wg sync.WaitGroup
	wg.Go(panics.Contain(nil, nil, func() {
		defer w.Close()
		_, _ = b.Run(context.Background()) // its end is the end of the records
	}))
	var a *linktun.Host
	at := &attached{up: func() *links.Line { return a.Port().Up() }, down: b.Port().Down(), records: r}
	at.close = sync.OnceFunc(func() {
		b.Close()
		wg.Wait()
		if a != nil {
			a.Close()
		}
		r.Close()
	})
	at.send = func(ctx context.Context, v []Volley, pause time.Duration, progress func(done, of int)) error {
		text, err := json.Marshal(order{v, pause})
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		told, tell, err := os.Pipe()
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		defer told.Close()
		defer tell.Close()
		if a, err = linktun.Attach(n, sender, from, linktun.Command{Args: append(append([]string{}, c.Probe...), "send", string(text)), Output: tell}); err != nil {
			return err
		}
		defer a.Close()
		var told1 sync.WaitGroup
		last := ""
		told1.Go(panics.Contain(nil, nil, func() {
			lines := bufio.NewScanner(told)
			for lines.Scan() {
				var done, of int
				if n, _ := fmt.Sscanf(lines.Text(), "%d %d", &done, &of); n == 2 {
					progress(done, of)
				} else {
					last = lines.Text()
				}
			}
		}))
		code, err := a.Run(ctx)
		tell.Close()
		told1.Wait()
		if err != nil {
			return err
		}
		if code != 0 {
			return fault.New(fault.Local, "the sender ended with exit code %d: %s", code, last)
		}
		return nil
	}
	return at, nil
}

// carryTUN carries bytes between programs that are this one.
func carryTUN(ctx context.Context, n *links.Net, c Config, from, to links.Access, bytes int64) (time.Duration, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fault.Wrap(fault.Local, err)
	}
	defer r.Close()
	defer w.Close()
	command := func(what string, out *os.File) linktun.Command {
		return linktun.Command{Args: append(append([]string{}, c.Probe...), what, fmt.Sprint(bytes)), Output: out, Congestion: links.Congestion}
	}
	b, err := linktun.Attach(n, receiver, to, command("download", w))
	if err != nil {
		return 0, err
	}
	defer b.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer b.Close()
	wg.Go(panics.Contain(nil, nil, func() {
		defer w.Close()
		_, _ = b.Run(ctx) // its last line says what came of it
	}))
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); line != listening+"\n" {
		return 0, fault.New(fault.Local, "the receiver has not begun: %s, %v", line, err)
	}
	a, err := linktun.Attach(n, sender, from, command("upload", nil))
	if err != nil {
		return 0, err
	}
	defer a.Close()
	code, err := a.Run(ctx)
	switch {
	case err != nil:
		return 0, err
	case code != 0:
		return 0, fault.New(fault.Local, "the sender ended with exit code %d", code)
	}
	line, err := lines.ReadString('\n')
	ns, err2 := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, fault.New(fault.Local, "the receiver says %q: %w", line, err)
	}
	return time.Duration(ns), nil
}

// listening is the line of a receiver that waits.
const listening = "listening"

// probeTCP is a program beside a TUN device that uploads or downloads.
func probeTCP(what, number string, w io.Writer) error {
	bytes, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fault.New(fault.Config, "the number of bytes: %w", err)
	}
	if what == "download" {
		l, err := net.Listen("tcp4", fmt.Sprint(":", port))
		if err != nil {
			return fault.Wrap(fault.Local, err)
		}
		defer l.Close()
		fmt.Fprintln(w, listening) // the caller waits for it
		took, err := download(l, bytes)
		if err == nil {
			fmt.Fprintln(w, int64(took))
		}
		return err
	}
	conn, err := net.Dial("tcp4", netip.AddrPortFrom(receiver, port).String())
	if err != nil {
		return fault.New(fault.Network, "dial over the emulated link: %w", err)
	}
	return upload(conn, bytes)
}

// order is what the sender is told.
type order struct {
	Volleys []Volley
	Pause   time.Duration
}

// Probe is the program beside a TUN device: "send ORDER", "receive", "upload BYTES" or "download BYTES", with
// the output.
func Probe(args []string, w io.Writer) error {
	if len(args) == 2 && (args[0] == "upload" || args[0] == "download") {
		return probeTCP(args[0], args[1], w)
	}
	c, err := net.ListenPacket("udp4", fmt.Sprint(":", port))
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer c.Close()
	switch {
	case len(args) == 1 && args[0] == "receive":
		if err := c.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		return Receive(c, w)
	case len(args) == 2 && args[0] == "send":
		var o order
		if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
			return fault.New(fault.Config, "the order: %w", err)
		}
		next := time.Now()
		return Send(c, &net.UDPAddr{IP: receiver.AsSlice(), Port: port}, o.Volleys, o.Pause, func(done, of int) {
			if t := time.Now(); t.After(next) {
				next = t.Add(100 * time.Millisecond)
				fmt.Fprintln(w, done, of) // nobody may read it any more
			}
		})
	}
	return fault.New(fault.Config, "send ORDER, receive, upload BYTES or download BYTES")
}
