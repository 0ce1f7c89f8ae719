package control

import (
	"bufio"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/ctlwire"
)

// session is one connection of a controller. It carries out one command at a time.
type session struct {
	srv  *Server
	conn net.Conn
	door Door
	done chan struct{} // closed with the connection
	once sync.Once

	known atomic.Bool // authenticated
	owner atomic.Bool // the program ends with this connection

	// Owned by run.
	in     *ctlwire.Reader
	out    *bufio.Writer
	asked  bool // PROTOCOLINFO, before it was authenticated
	client []byte
	after  func() // what a command does once its reply is written
	last   bool   // the reply is the last one
	refuse bool   // the log has told that commands are filtered

	onions []string // guarded by the server's onions.mu: addresses of its services

	// wmu is held from the start of a command to the end of its reply, and for each event: so an event never
	// stands within a reply, nor before the reply of the command that caused it.
	wmu sync.Mutex
	own owned // guarded by wmu

	more    chan struct{} // there may be events
	emu     sync.Mutex
	wants   [len(eventNames)]bool // guarded by emu
	events  []event               // guarded by emu
	queued  int                   // guarded by emu: their bytes
	overrun bool                  // guarded by emu
}

func newSession(s *Server, c net.Conn, d Door) *session {
	one := &session{srv: s, conn: c, door: d, done: make(chan struct{}), more: make(chan struct{}, 1)}
	one.in, one.out = ctlwire.NewReader(c, strangerInput), bufio.NewWriterSize(timed{c}, 4096)
	return one
}

// timed bounds how long a controller may take to read.
type timed struct{ net.Conn }

func (t timed) Write(b []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return t.Conn.Write(b)
}

func (one *session) write(b []byte) error {
	_, err := timed{one.conn}.Write(b)
	return err
}

// close ends the session. It waits for nothing.
func (one *session) close() {
	one.once.Do(func() {
		close(one.done)
		one.conn.Close()
	})
}

func (one *session) ended() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

// run reads and obeys commands until the connection ends.
func (one *session) run() {
	if err := one.conn.SetReadDeadline(time.Now().Add(strangerTime)); err != nil {
		return
	}
	for !one.last {
		c, err := one.in.Next()
		if err != nil && !errors.Is(err, ctlwire.ErrTooLong) {
			return
		}
		if !one.obey(c, err) {
			return
		}
		if one.after != nil {
			one.after()
			one.after = nil
		}
	}
}

// obey carries out a command, or tells that it was too long, and reports whether the session goes on.
func (one *session) obey(c ctlwire.Command, tooLong error) bool {
	one.wmu.Lock()
	defer one.wmu.Unlock()
	var err error
	switch {
	case tooLong != nil:
		one.last = true
		err = one.end(ctlwire.SyntaxError, "Line too long.")
	case !one.known.Load() && ctlwire.LooksLikeHTTP(c):
		one.last = true
		_, err = one.out.WriteString("HTTP/1.0 501 This is a Tor control port, which does not speak HTTP\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	default:
		err = one.dispatch(c)
	}
	if err == nil {
		err = one.out.Flush()
	}
	if err == nil {
		err = one.writeEventsLocked() // those that the command caused come before the reply to the next one
	}
	if one.last {
		one.lingerLocked(tooLong != nil)
	}
	return err == nil
}

// lingerLocked takes the rest of a command that is too long, within bounds: to close a connection with
// bytes that nobody has read would take the reply away from the controller.
func (one *session) lingerLocked(unread bool) {
	if !unread || one.conn.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	var b [4096]byte
	for range 1024 {
		if _, err := one.conn.Read(b[:]); err != nil {
			return
		}
	}
}

// handler carries out a command, and writes its reply.
type handler struct {
	do        func(*session, ctlwire.Command) error
	strangers bool // a controller may send it before it is authenticated
	data      bool // it has data
}

// handlers are the commands. The function is there because some handlers use the table.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"PROTOCOLINFO":  {do: (*session).protocolInfo, strangers: true},
		"AUTHCHALLENGE": {do: (*session).authChallenge, strangers: true},
		"AUTHENTICATE":  {do: (*session).authenticate, strangers: true},
		"QUIT":          {do: (*session).quit, strangers: true},
		"GETINFO":       {do: (*session).getInfo},
		"GETCONF":       {do: (*session).getConf},
		"SETCONF":       {do: (*session).setConf},
		"RESETCONF":     {do: (*session).resetConf},
		"LOADCONF":      {do: (*session).loadConf, data: true},
		"SAVECONF":      {do: (*session).saveConf},
		"SETEVENTS":     {do: (*session).setEvents},
		"SIGNAL":        {do: (*session).signal},
		"TAKEOWNERSHIP": {do: (*session).takeOwnership},
		"DROPOWNERSHIP": {do: (*session).dropOwnership},
		"USEFEATURE":    {do: (*session).useFeature},

		"ADD_ONION":                {do: (*session).addOnion},
		"DEL_ONION":                {do: (*session).delOnion},
		"ONION_CLIENT_AUTH_ADD":    {do: (*session).authAdd},
		"ONION_CLIENT_AUTH_REMOVE": {do: (*session).authRemove},
		"ONION_CLIENT_AUTH_VIEW":   {do: (*session).authView},
		"HSFETCH":                  {do: (*session).hsFetch},
		"HSPOST":                   {do: (*session).hsPost, data: true},

		"EXTENDCIRCUIT":     {do: (*session).extendCircuit},
		"CLOSECIRCUIT":      {do: (*session).closeCircuit},
		"SETCIRCUITPURPOSE": {do: (*session).setCircuitPurpose},
		"ATTACHSTREAM":      {do: (*session).attachStream},
		"REDIRECTSTREAM":    {do: (*session).redirectStream},
		"CLOSESTREAM":       {do: (*session).closeStream},
		"MAPADDRESS":        {do: (*session).mapAddress},
		"RESOLVE":           {do: (*session).resolve},
		"DROPGUARDS":        {do: (*session).dropGuards},
		"DROPTIMEOUTS":      {do: (*session).dropTimeouts},
	}
}

// obsolete are commands that C tor has no more.
var obsolete = []string{"SETROUTERPURPOSE"}

func (one *session) dispatch(c ctlwire.Command) error {
	h, ok := handlers[c.Name]
	if !one.known.Load() {
		if again := c.Name == "PROTOCOLINFO" && one.asked; !ok || !h.strangers || again {
			one.last = true
			return one.end(ctlwire.NeedsAuth, "Authentication required.")
		}
		one.asked = one.asked || c.Name == "PROTOCOLINFO"
	}
	if r := one.rules(); r != nil && one.known.Load() {
		switch r.check(one, &c) {
		case filtered:
			return one.filtered(c)
		case ignored:
			return one.ok()
		}
	}
	switch {
	case slices.Contains(obsolete, c.Name):
		return one.end(ctlwire.Unimplemented, c.Name+" is obsolete.")
	case !ok:
		return one.end(ctlwire.BadCommand, "Unrecognized command "+ctlwire.Quote(c.Sent))
	case h.data && len(c.Data) == 0:
		return one.badArguments(c, "Empty body")
	case !h.data && c.Data != nil:
		return one.badArguments(c, "Unexpected body")
	}
	return h.do(one, c)
}

// line writes one line of a reply.
func (one *session) line(code int, sep byte, text string) error {
	b, err := ctlwire.AppendLine(nil, code, sep, text)
	if err != nil {
		return err
	}
	_, err = one.out.Write(b)
	return err
}

// end writes the last line of a reply. Its text may repeat what the controller sent.
func (one *session) end(code int, text string) error {
	return one.line(code, ctlwire.End, ctlwire.OneLine(text))
}

func (one *session) ok() error { return one.end(ctlwire.OK, "OK") }

// fail tells why a command was not obeyed.
func (one *session) fail(err error) error {
	var e *ctlwire.Error
	if errors.As(err, &e) {
		return one.end(e.Code, e.Text)
	}
	return one.end(ctlwire.Failed, err.Error())
}

func (one *session) badArguments(c ctlwire.Command, why string) error {
	return one.end(ctlwire.BadArgument, "Bad arguments to "+c.Name+": "+why)
}

// keywords reads the arguments of a command; ok is false if a reply was written that says that they are wrong.
func (one *session) keywords(c ctlwire.Command, syntax ctlwire.Syntax) (list []ctlwire.Keyword, ok bool, err error) {
	list, wrong := ctlwire.Keywords(c.Args, syntax)
	if wrong != nil {
		return nil, false, one.badArguments(c, "Cannot parse keyword argument(s)")
	}
	return list, true, nil
}

func words(c ctlwire.Command) []string { return strings.Fields(c.Args) }
