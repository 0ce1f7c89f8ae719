package dirserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// tunnels serves the directory streams of a relay.
type tunnels struct {
	t *testing.T
	s *Server
}

func (d tunnels) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	serve, err := d.s.Begin(d.t.Context(), h, m.Stream)
	if serve != nil {
		go serve()
	}
	return err
}

// TestHSDirOncePerCircuit: on a circuit that comes from a relay, an HSDir answers one request
// about descriptors. The next one ends the circuit, whichever of the two kinds they are.
func TestHSDirOncePerCircuit(t *testing.T) {
	w := newHSWorld(t, 1<<20)
	w.now = time.Now()
	s := New(Config{Docs: new(Memory), Extra: w.Handle, MaxUpload: func(string) int { return netdoc.MaxHSDescriptor }})
	middle, dir := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{Streams: tunnels{t, s}})
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	create := func(at *simnet.Relay) *circuit.Circuit {
		ch, err := m.Get(ctx, at.Target)
		if err != nil {
			t.Fatal(err)
		}
		c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, at.Target, circuit.HopOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	far := func() *circuit.Circuit {
		c := create(middle)
		if err := c.Extend(ctx, dir.Target, circuit.HopOptions{}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(c *circuit.Circuit, request string) int {
		st, err := stream.BeginDir(c.Last())
		if err != nil {
			return 0
		}
		defer st.Close()
		if _, err := io.WriteString(st, request); err != nil {
			return 0
		}
		res, err := http.ReadResponse(bufio.NewReader(st), nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	service := newHSService(t)
	body := service.descriptor(1, w.now)
	upload := fmt.Sprintf("POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", HSPublishPath, len(body), body)
	fetch := "GET " + service.path() + " HTTP/1.0\r\n\r\n"
	other := "GET /tor/no/such HTTP/1.0\r\n\r\n"
	if got := ask(far(), upload); got != 200 {
		t.Fatalf("an upload: %d", got)
	}
	for name, first := range map[string]string{"fetch": fetch, "upload": upload, "nonsense": "GET /tor/hs/3/x HTTP/1.0\r\n\r\n"} {
		for _, second := range []string{fetch, upload} {
			c := far()
			if got := ask(c, other); got != 404 {
				t.Errorf("another request: %d", got)
			}
			if got := ask(c, first); got == 0 {
				t.Errorf("the first, %s, is not answered", name)
			}
			if got := ask(c, second); got != 0 {
				t.Errorf("after %s, %.4s: %d", name, second, got)
			}
			select {
			case <-c.Done():
			case <-time.After(10 * time.Second):
				t.Errorf("after %s and %.4s the circuit lives", name, second)
				c.Close(cell.DestroyNone, nil)
			}
		}
	}
	if n := w.Stats().Repeated.Load(); n != 6 {
		t.Errorf("%d are counted", n)
	}
	near := create(dir) // a client's own circuit: it gets nothing, however often
	for range 3 {
		if got := ask(near, fetch); got != 503 {
			t.Errorf("over one hop: %d", got)
		}
	}
}
