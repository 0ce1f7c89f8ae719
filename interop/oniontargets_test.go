package interop

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/internal/netaddr"
)

// spreads: the connections of one client to a port with several targets go to all of them,
// whether C tor or Chive is the host. Those of Chive come from the address that its user wants.
func spreads(t *testing.T, nw *ctor.Network, proxy string) {
	d := nw.Description()
	c := inNetwork(t, &d, "several targets", func(c *chive.Config) { c.OutboundBindAddress = []string{"127.0.0.6"} })
	from := map[string]string{"C tor": "127.0.0.1", "Chive": "127.0.0.6"}
	var at []string
	for _, name := range []string{"a", "b"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go sayPeer(l, name)
		at = append(at, l.Addr().String())
	}
	dir := filepath.Join(t.TempDir(), "service")
	newStock(t, nw, "HiddenServiceDir "+dir, "HiddenServicePort 80 "+at[0], "HiddenServicePort 80 "+at[1])
	k, err := hsservice.ReadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := serve(t, c, chive.OnionConfig{Ports: []int{}, Targets: map[int]string{80: at[0]}, MoreTargets: map[int][]string{80: {at[1]}}})
	defer l.Close()
	for who, address := range map[string]string{"C tor": k.Address(), "Chive": l.Address()} {
		d := socksclient.Dialer{Proxy: proxy, User: "targets of " + who, Pass: "x"}
		var conn net.Conn
		await(t, who+"'s service is there", patience, func() bool {
			conn, err = d.DialContext(bounded(t, time.Minute), "tcp", address+":80")
			return err == nil
		})
		count := map[string]int{}
		for i := range 40 {
			if i > 0 {
				if conn, err = d.DialContext(bounded(t, patience), "tcp", address+":80"); err != nil {
					t.Fatal(err)
				}
			}
			b, err := io.ReadAll(conn)
			conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			count[string(b)]++
		}
		t.Logf("%s: %v", who, fmt.Sprint(count))
		if len(count) != 2 || count["a "+from[who]]+count["b "+from[who]] != 40 { // a fair coin shows one side only, 40 times, once in 5 x 10^11
			t.Errorf("%s: %v", who, count)
		}
	}
}

// sayPeer tells each connection a name, and the address that it comes from.
func sayPeer(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, name+" "+netaddr.Of(c.RemoteAddr()).String()) // a client that is gone reads nothing
		c.Close()
	}
}
