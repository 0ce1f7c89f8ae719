package tord

import (
	"strings"
	"testing"
)

// TestNeededTransports: the program of a transport has to be there only if a bridge needs it, as with C tor. OnionShare's torrc has
// such lines.
func TestNeededTransports(t *testing.T) {
	const missing = "program: "
	bridge := "Bridge obfs4 192.0.2.1:443 F533C81CEF0BC0267857C99B2F471ADF249FA232 cert=x iat-mode=0"
	for _, c := range []struct {
		torrc string
		want  string // in the error; empty: there is none
	}{
		{"ClientTransportPlugin meek_lite,obfs4 exec /nonexistent/proxy\nClientTransportPlugin snowflake exec None -url x", ""},
		{"ClientTransportPlugin obfs4 exec /nonexistent/proxy\n" + bridge, ""},
		{"UseBridges 1\nClientTransportPlugin snowflake exec None\nBridge 192.0.2.1:443", ""},
		{"UseBridges 1\nClientTransportPlugin a,obfs4 exec /nonexistent/proxy\n" + bridge, missing},
		{"ClientTransportPlugin obfs4 /nonexistent/proxy", "transport plugin"},
		{"ClientTransportPlugin o/b exec /bin/true", "not a transport's name"},
	} {
		conf := conf{}
		for l := range strings.SplitSeq("DataDirectory "+t.TempDir()+"\n"+c.torrc, "\n") {
			key, value, _ := strings.Cut(l, " ")
			if err := conf.put(find(key), value); err != nil {
				t.Fatal(l, err)
			}
		}
		if _, err := planOf(conf); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.torrc, err, c.want)
		}
	}
}
