package control

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/ctlwire"
)

// wheel notes what it is told.
type wheel struct {
	mu  sync.Mutex
	did []string // guarded by mu
}

// take returns what was noted since the last call.
func (w *wheel) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	did := strings.Join(w.did, "; ")
	w.did = nil
	return did
}

func (w *wheel) note(format string, args ...any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, fmt.Sprintf(format, args...))
	return nil
}

func (w *wheel) ExtendCircuit(c string, path []string, purpose string) (uint64, error) {
	return 7, w.note("extend %s %q %s", c, path, purpose)
}
func (w *wheel) CloseCircuit(c string, unused bool) error { return w.note("close %s %v", c, unused) }
func (w *wheel) SetCircuitPurpose(c, purpose string) error {
	return w.note("purpose %s %s", c, purpose)
}
func (w *wheel) AttachStream(s, c string, hop int) error { return w.note("attach %s %s %d", s, c, hop) }
func (w *wheel) RedirectStream(s, host string, port uint16) error {
	return w.note("redirect %s %s %d", s, host, port)
}
func (w *wheel) CloseStream(s string, reason uint8) error { return w.note("end %s %d", s, reason) }
func (w *wheel) StreamsBy(ports []string) map[string]uint64 {
	own := map[string]uint64{}
	if slices.Contains(ports, "127.0.0.1:9150") {
		own["7"] = 3
	}
	return own
}
func (w *wheel) MapAddress(rules []Line) (out []Mapping) {
	for _, r := range rules {
		if r.Value == "bad" {
			out = append(out, Mapping{Err: ctlwire.Errorf(512, "no")})
		} else {
			out = append(out, Mapping{Text: r.Key + "=" + r.Value})
		}
	}
	return out
}
func (w *wheel) Resolve(names []string, reverse bool) { _ = w.note("resolve %q %v", names, reverse) }
func (w *wheel) DropGuards() error                    { return w.note("guards") }
func (w *wheel) DropTimeouts() error                  { return w.note("timeouts") }

// TestSteeringCommands: each form of a command reaches the engine as it was meant.
func TestSteeringCommands(t *testing.T) {
	w := &wheel{}
	r := newRig(t, Auth{})
	r.srv.cfg.Steering = w
	c := r.known()
	for _, x := range [][3]string{
		{"EXTENDCIRCUIT 0", `extend 0 [] `, "250 EXTENDED 7"},
		{"EXTENDCIRCUIT 0 a,b purpose=controller", `extend 0 ["a" "b"] controller`, "250 EXTENDED 7"},
		{"EXTENDCIRCUIT 0 $AA=x,$BB", `extend 0 ["$AA=x" "$BB"] `, "250 EXTENDED 7"},
		{"EXTENDCIRCUIT 0 purpose=general", `extend 0 [] general`, "250 EXTENDED 7"},
		{"CLOSECIRCUIT 3", "close 3 false", "250 OK"},
		{"CLOSECIRCUIT 3 IfUnused", "close 3 true", "250 OK"},
		{"SETCIRCUITPURPOSE 3 purpose=general", "purpose 3 general", "250 OK"},
		{"SETCIRCUITPURPOSE 3", "purpose 3 ", "250 OK"},
		{"ATTACHSTREAM 4 3 HOP=2", "attach 4 3 2", "250 OK"},
		{"REDIRECTSTREAM 4 host 80", "redirect 4 host 80", "250 OK"},
		{"REDIRECTSTREAM 4 host", "redirect 4 host 0", "250 OK"},
		{"CLOSESTREAM 4 1", "end 4 1", "250 OK"},
		{"CLOSESTREAM 4 1 flag", "end 4 1", "250 OK"},
		{"DROPGUARDS", "guards", "250 OK"},
		{"DROPTIMEOUTS", "timeouts", "250 OK"},
		{"MAPADDRESS a=b c=bad", "", "250-a=b\r\n512 no"},
		{"CLOSESTREAM 4 256", "", `552 Unrecognized reason "256"`},
		{"REDIRECTSTREAM 4 host 65536", "", `512 Cannot parse port "65536"`},
		{"SETCIRCUITPURPOSE", "", "512 Bad arguments to SETCIRCUITPURPOSE: Need at least 1 argument(s)"},
		{"ATTACHSTREAM 4", "", "512 Bad arguments to ATTACHSTREAM: Need at least 2 argument(s)"},
	} {
		c.send(x[0] + "\r\n")
		c.want(x[2] + "\r\n")
		if got := w.take(); got != x[1] {
			t.Errorf("%s: %q, want %q", x[0], got, x[1])
		}
	}
	c.send("RESOLVE mode=reverse 192.0.2.1 b\r\nQUIT\r\n") // what it does comes after its reply, and before QUIT
	c.want("250 OK\r\n")
	c.wantEnd("250 closing connection\r\n")
	if got := w.take(); got != `resolve ["192.0.2.1" "b"] true` {
		t.Error(got)
	}
}

// TestSteeringBounds: one command does not make more events than others can read.
func TestSteeringBounds(t *testing.T) {
	w := &wheel{}
	r := newRig(t, Auth{})
	r.srv.cfg.Steering = w
	c := r.known()
	c.send("RESOLVE" + strings.Repeat(" a", maxNames+1) + "\r\n")
	c.want("512 Bad arguments to RESOLVE: Too many arguments\r\n")
	c.send("MAPADDRESS" + strings.Repeat(" a=b", maxRules+1) + "\r\n")
	c.want("512 Bad arguments to MAPADDRESS: Too many arguments\r\n")
	if got := w.take(); got != "" {
		t.Error(got)
	}
	c.send("RESOLVE" + strings.Repeat(" a", maxNames) + "\r\nMAPADDRESS" + strings.Repeat(" a=bad", maxRules) + "\r\nQUIT\r\n")
	c.want("250 OK\r\n" + strings.Repeat("512-no\r\n", maxRules-1) + "512 no\r\n250 closing connection\r\n")
	if got := w.take(); !strings.HasPrefix(got, "resolve [") {
		t.Error(got)
	}
}

// TestEventSeq: an event with data is whole, and what would end the data is escaped.
func TestEventSeq(t *testing.T) {
	r := newRig(t, Auth{})
	c := r.known()
	c.send("SETEVENTS NS\r\n")
	c.want("250 OK\r\n")
	if err := r.srv.EventSeq("NS", "", slices.Values([]string{"r a", ".", "s Fast"})); err != nil {
		t.Fatal(err)
	}
	c.want("650+NS\r\nr a\r\n..\r\ns Fast\r\n.\r\n650 OK\r\n")
	if err := r.srv.EventSeq("NS", "", slices.Values([]string{"a\nb"})); err == nil {
		t.Error("a line with a line break")
	}
	if err := r.srv.EventSeq("NEWCONSENSUS", "", slices.Values([]string{"a\nb"})); err != nil {
		t.Error("an event that nobody wants was made")
	}
}

// noWheel refuses to drop guards, as a relay does.
type noWheel struct{ wheel }

func (*noWheel) DropGuards() error { return ctlwire.Errorf(551, "this process is a relay") }

// TestDropGuardsLog: the log warns when guards are dropped, and not when that was refused.
func TestDropGuardsLog(t *testing.T) {
	for _, c := range []struct {
		s     Steering
		reply string
		warns int
	}{{new(wheel), "250 OK\r\n", 1}, {new(noWheel), "551 this process is a relay\r\n", 0}} {
		var log logged
		r := newRigOf(t, Config{Steering: c.s, Log: slog.New(slog.NewTextHandler(&log, nil)), Secrets: func() Auth { return Auth{} }}, Door{Admit: OwnUser})
		k := r.known()
		k.send("DROPGUARDS\r\n")
		k.want(c.reply)
		if n := strings.Count(log.text(), "drops the guards"); n != c.warns {
			t.Errorf("%q: %d warnings", c.reply, n)
		}
	}
}

// logged is a log that is written and read at the same time.
type logged struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
