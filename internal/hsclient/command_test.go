package hsclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// told is a client whose events a test reads.
func told(t *testing.T, n Network) (*Client, <-chan netdir.HSEvent) {
	t.Helper()
	events := make(chan netdir.HSEvent, 100)
	c := New(Config{Network: n, Log: slog.New(slog.DiscardHandler), Keys: func() Keys { return nil }, Tell: func(e netdir.HSEvent) { events <- e }})
	t.Cleanup(c.Close)
	return c, events
}

// directory answers requests with a status, and gives out and takes one descriptor.
func directory(t *testing.T, status string, doc []byte, posted chan<- []byte) *realNet {
	t.Helper()
	return newRealNet(t, simnet.Options{Serve: func(s *stream.Stream) {
		defer s.Close()
		r, err := http.ReadRequest(bufio.NewReader(s))
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method == "POST" {
			posted <- body
		}
		_, _ = io.WriteString(s, "HTTP/1.0 "+status+"\r\n\r\n")
		if r.Method == "GET" && status == "200 OK" {
			_, _ = s.Write(doc)
		}
	}})
}

// TestFetchNow: a fetch for a controller asks one directory, or those that it names, tells each step, and the
// descriptor and its text are kept.
func TestFetchNow(t *testing.T) {
	s := newService(t)
	doc := s.descriptor(t, time.Now())
	n := directory(t, "200 OK", doc, nil)
	c, events := told(t, n)
	c.KeepTexts(true)
	dirs := directories(madeNet(), madeNet().HSTimes(false), s.blinded)
	for _, from := range [][]ident.RSAID{nil, {dirs[1].RSA(), dirs[0].RSA()}} {
		if err := c.FetchNow(s.id, from); err != nil {
			t.Fatal(err)
		}
		for i := range max(1, len(from)) {
			asked, got := <-events, <-events
			if asked.Action != netdir.HSRequested || asked.Service != s.id || asked.Blinded != s.blinded || asked.Index == [32]byte{} || from != nil && asked.Dir.RSA() != from[i] {
				t.Errorf("%+v", asked)
			}
			if got.Action != netdir.HSReceived || got.Dir != asked.Dir || !bytes.Equal(got.Text, doc) {
				t.Errorf("%+v", got)
			}
		}
	}
	c.Close() // waits for the last to be kept
	if len(events) > 0 {
		t.Errorf("%+v", <-events)
	}
}

// TestKeptText: the text of a descriptor is there after it was fetched, and only if texts are kept.
func TestKeptText(t *testing.T) {
	s := newService(t)
	doc := s.descriptor(t, time.Now())
	for _, keep := range []bool{false, true} {
		c, _ := told(t, directory(t, "200 OK", doc, nil))
		c.KeepTexts(keep)
		if text, err := c.KeptText(t.Context(), s.id); text != nil || err != nil {
			t.Error(text, err)
		}
		if _, err := c.descriptor(t.Context(), c.history(s.id), nil); err != nil {
			t.Fatal(err)
		}
		want := doc
		if !keep {
			want = nil
		}
		if text, err := c.KeptText(t.Context(), s.id); !bytes.Equal(text, want) || err != nil {
			t.Error(len(text), err)
		}
	}
}

// TestFetchNowFails: a controller hears why a fetch came to nothing, in C tor's words.
func TestFetchNowFails(t *testing.T) {
	s := newService(t)
	for status, reason := range map[string]string{"404 Not found": "NOT_FOUND", "400 Bad": "QUERY_REJECTED", "503 Busy": "UNEXPECTED", "200 OK": "BAD_DESC"} {
		c, events := told(t, directory(t, status, []byte("no descriptor"), nil))
		if err := c.FetchNow(s.id, nil); err != nil {
			t.Fatal(err)
		}
		<-events
		if e := <-events; e.Action != netdir.HSFailed || e.Reason != reason || !e.Fetch || e.Text != nil {
			t.Errorf("%s: %+v", status, e)
		}
	}
	unreachable := &fakeNet{}
	c, events := told(t, unreachable)
	if err := c.FetchNow(s.id, nil); err != nil {
		t.Fatal(err)
	}
	<-events
	if e := <-events; e.Reason != "UNEXPECTED" || !e.Fetch {
		t.Errorf("%+v", e)
	}
	if err := c.FetchNow(s.id, []ident.RSAID{{9, 9, 9}}); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Reason != "QUERY_NO_HSDIR" || !e.Dir.IsZero() {
		t.Errorf("%+v", e)
	}
	none := &fakeNet{dir: func(context.Context) (*netdir.Directory, error) { return nil, errors.New("none") }}
	c, events = told(t, none)
	if err := c.FetchNow(s.id, nil); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Reason != "QUERY_NO_HSDIR" || e.Service != s.id {
		t.Errorf("%+v", e)
	}
}

// TestPostNow: a controller's descriptor reaches the directories as it is, and each upload is told.
func TestPostNow(t *testing.T) {
	s := newService(t)
	doc := s.descriptor(t, time.Now())
	dirs := directories(madeNet(), madeNet().HSTimes(false), s.blinded)
	for status, want := range map[string]netdir.HSEvent{
		"200 OK":  {Action: netdir.HSUploaded},
		"400 Bad": {Action: netdir.HSFailed, Reason: "UPLOAD_REJECTED"},
		"500 Bad": {Action: netdir.HSFailed, Reason: "UNEXPECTED"},
	} {
		posted := make(chan []byte, 1)
		c, events := told(t, directory(t, status, nil, posted))
		if err := c.PostNow(s.id, []byte("no descriptor"), nil); err == nil {
			t.Error("it took what is no descriptor")
		}
		if err := c.PostNow(s.id, doc, []ident.RSAID{dirs[0].RSA()}); err != nil {
			t.Fatal(err)
		}
		if got := <-posted; !bytes.Equal(got, doc) {
			t.Errorf("%q", got)
		}
		if e := <-events; e.Action != netdir.HSUpload || e.Dir.RSA() != dirs[0].RSA() || e.Blinded != s.blinded {
			t.Errorf("%+v", e)
		}
		if e := <-events; e.Action != want.Action || e.Reason != want.Reason || e.Fetch {
			t.Errorf("%s: %+v", status, e)
		}
	}
	none := &fakeNet{dir: func(context.Context) (*netdir.Directory, error) { return nil, errors.New("none") }}
	c, events := told(t, none)
	if err := c.PostNow(s.id, doc, nil); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Action != netdir.HSFailed || e.Fetch {
		t.Errorf("%+v", e)
	}
}

// TestMaxCommands: controllers have a bounded number of fetches under way. They end with the client, and none
// begins after it.
func TestMaxCommands(t *testing.T) {
	s := newService(t)
	waits := &fakeNet{dir: func(ctx context.Context) (*netdir.Directory, error) { <-ctx.Done(); return nil, ctx.Err() }}
	c, events := told(t, waits)
	for range maxCommands {
		if err := c.FetchNow(s.id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.FetchNow(s.id, nil); !errors.Is(err, errManyCommands) {
		t.Error(err)
	}
	c.Close()
	if err := c.FetchNow(s.id, nil); err == nil {
		t.Error("a fetch begins after the end")
	}
	if len(events) > 0 {
		t.Errorf("%+v", <-events)
	}
}
