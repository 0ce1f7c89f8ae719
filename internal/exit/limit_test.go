package exit

import (
	"testing"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/pace"
	"github.com/chivenet/chive/internal/stream"
)

// TestLimitIsNotOfTheDirectory: the limit of the consensus is about BEGIN and RESOLVE. A
// client that fetches the directory opens a stream for each request.
func TestLimitIsNotOfTheDirectory(t *testing.T) {
	e, c := setup(t, accept(t, "accept *:*"), dirserver.New(dirserver.Config{Docs: new(dirserver.Memory)}))
	e.SetStreamLimit(&StreamLimit{Pace: pace.Limit{Rate: 1e-9, Burst: 1}, Destroy: true})
	for range 20 {
		s, err := stream.BeginDir(c.Last())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.WaitOpen(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	port := echoServer(t)
	if _, err := dial(t, c, "127.0.0.1", port); err != nil { // directory streams took nothing of it
		t.Fatal(err)
	}
	if _, err := dial(t, c, "127.0.0.1", port); err == nil {
		t.Error("a stream above the limit was opened")
	}
	<-c.Done() // Destroy
}
