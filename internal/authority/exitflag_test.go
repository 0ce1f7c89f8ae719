package authority

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestGeneralExit: who is an exit, as C tor judges.
func TestGeneralExit(t *testing.T) {
	var halves strings.Builder // of each /8 network, half is refused
	for i := range 256 {
		fmt.Fprintf(&halves, "reject %d.0.0.0/9:80 ", i)
	}
	type want struct{ public, private bool } // in a network on public and on private addresses
	for policy, want := range map[string]want{
		"accept *:*": {true, true}, "reject *:*": {}, "accept *:80 accept *:443 reject *:*": {true, true}, "accept *:80 reject *:*": {},
		"reject *:25 accept *:*": {true, true}, "accept 1.2.3.4:* reject *:*": {}, "reject 0.0.0.0/0:443 accept *:*": {},
		"accept 44.0.0.0/8:* reject *:*": {true, true}, "reject 44.5.0.0/16:* accept 44.0.0.0/8:* reject *:*": {},
		"accept 127.0.0.0/8:* reject *:*": {false, true}, "accept 10.0.0.0/8:* reject *:*": {false, true}, "accept 0.0.0.0/7:* reject *:*": {true, true},
		halves.String() + "accept *:*": {}, "reject 44.0.0.0/9:* accept *:*": {true, true},
	} {
		var p netdoc.ExitPolicy
		w := strings.Fields(policy)
		for i := 0; i < len(w); i += 2 {
			r, err := netdoc.ParsePolicyRule(w[i] == "accept", w[i+1])
			if err != nil {
				t.Fatal(err)
			}
			p = append(p, r)
		}
		if public, private := generalExit(p, false), generalExit(p, true); public != want.public || private != want.private {
			t.Errorf("%.60q: %v, and %v on private addresses", policy, public, private)
		}
	}
}
