package interop

import (
	"context"
	"strings"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/target"
)

// TestInternalAnswers: a client that rejects answers with private addresses, as
// all clients of the public network do, accepts none from C tor's exits; and it
// understands C tor's messages about such answers.
func TestInternalAnswers(t *testing.T) {
	nw := network(t, "vanilla")
	text, err := nw.NetworkFile()
	if err != nil {
		t.Fatal(err)
	}
	description, err := chive.ParseNetwork(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := chive.New(chive.Config{Network: description, DataDir: t.TempDir(), ClientDNSRejectInternalAddresses: chive.SwitchOn})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	want := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "not believed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = c.Resolve(ctx, target.Name4)
	want("RESOLVE", err)
	for _, to := range []string{shared.target.NameAddr(target.Echo, target.Name4), shared.target.Addr(target.Echo)} {
		conn, err := c.DialContext(ctx, "tcp", to)
		want("CONNECTED for "+to, err)
		if err == nil {
			conn.Close()
		}
	}
	// A reverse lookup of a private address is refused at once.
	if names, err := c.ResolvePTR(ctx, target.Reverse); err != nil || len(names) != 1 || names[0] != target.Name {
		t.Errorf("RESOLVE_PTR: %v %v", names, err)
	}
}
