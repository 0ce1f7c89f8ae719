package interop

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/labtest"
)

// TestDormantStart: with the same torrc, C tor and Chive begin dormant or awake in the same runs: a launcher reads the same first step
// of the bootstrap, and the only authority is asked when the program is awake, or when SIGNAL ACTIVE wakes it.
func TestDormantStart(t *testing.T) {
	tor, _, err := ctor.Find("")
	labtest.Need(t, "C tor", err)
	for name, program := range map[string]string{"C tor": tor, "Chive": torProgram(t)} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			for _, r := range []dormantRun{
				{"DormantOnFirstStartup 1", true, ""},
				{"", true, ""},
				{"DormantTimeoutEnabled 0", false, "DORMANT"},
				{"DormantCanceledByStartup 1", false, "DORMANT"},
				{"DormantOnFirstStartup 0", true, "ACTIVE"},
				{"DormantOnFirstStartup 1", false, ""},
			} {
				r.run(t, program, data)
			}
		})
	}
}

// dormantRun is a run of a program whose data directory stays.
type dormantRun struct {
	option  string
	dormant bool   // it begins so
	signal  string // what the controller sends
}

func (d *dormantRun) run(t *testing.T, program, data string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var count atomic.Int32
	asked := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			count.Add(1)
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	dir, err := os.MkdirTemp("", "dormant") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text := fmt.Sprintf("DataDirectory %s\nSocksPort 0\nControlPort unix:%s/s\nTestingTorNetwork 1\nGeoIPFile %s\nGeoIPv6File %s\n"+
		"DirAuthority a orport=%d no-v2 v3ident=%040d %s %040d\n%s\n", data, dir, os.DevNull, os.DevNull, l.Addr().(*net.TCPAddr).Port, 1, l.Addr(), 2, d.option)
	if err := os.WriteFile(filepath.Join(dir, "torrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t, patience)
	var out strings.Builder
	cmd := exec.CommandContext(ctx, program, "-f", filepath.Join(dir, "torrc"))
	cmd.Stdout, cmd.WaitDelay = &out, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s %s: %v\n%s", program, d.option, err, out.String())
		}
		if t.Failed() {
			t.Logf("%q:\n%s", d.option, out.String())
		}
	}()
	r := replayer{dir: dir}
	r.t = t
	await(t, "the port for controllers", patience, func() bool {
		conn, err := net.Dial("unix", dir+"/s")
		if err == nil {
			r.conn, r.in = conn, bufio.NewReader(conn)
		}
		return err == nil
	})
	defer r.conn.Close()
	if got := r.ask("AUTHENTICATE"); got != "250 OK" {
		t.Fatal(got)
	}
	phase := r.ask("GETINFO status/bootstrap-phase")
	if d.dormant && !strings.Contains(phase, "PROGRESS=0 TAG=starting") {
		t.Errorf("%q: %s", d.option, phase)
	}
	if d.dormant && count.Load() > 0 {
		t.Errorf("%q: it asks the authority", d.option)
	}
	wait := func() {
		select {
		case <-asked:
		case <-ctx.Done():
			t.Errorf("%q: it does not ask the authority", d.option)
		}
	}
	if !d.dormant {
		wait()
	}
	if d.signal != "" {
		if got := r.ask("SIGNAL " + d.signal); got != "250 OK" {
			t.Error(got)
		}
	}
	if d.dormant && d.signal == "ACTIVE" {
		wait()
	}
	if got := r.ask("SIGNAL HALT"); got != "250 OK" {
		t.Error(got)
	}
}
