package circuit

import (
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// TestPlanMatrix holds every policy to every kind of path. A relay is one
// letter: f speaks everything, b carriage B alone, 5 the small set and B, t is
// stock C tor, x has no known onion key, and o speaks B but not ntor-v3.
func TestPlanMatrix(t *testing.T) {
	protos := map[byte]string{
		'f': "Relay=2-6 ChivePQ=1-3,8", 'b': "Relay=2-6 ChivePQ=8", '5': "Relay=2-6 ChivePQ=1,8", 't': "Relay=2-6",
		'x': "Relay=2-6 ChivePQ=1-3,8", 'o': "Relay=2-3 ChivePQ=8",
	}
	for _, c := range []struct {
		path, plan string
		one, all   bool // whether the policies that demand are content
	}{
		{"fff", "AAA", true, true},
		{"f", "A", true, true},
		{"ftf", "A-B", true, false},
		{"ttt", "---", false, false},
		{"tff", "-BA", true, false},
		{"ttf", "--B", true, false},
		{"fbf", "ABB", true, true},
		{"f5f", "ABB", true, true},
		{"xff", "-AA", true, false},
		{"oot", "---", false, false},
		{"ffffffff", "AAAAAAAA", true, true},
		{"", "", false, true},
	} {
		var targets []linkspec.Target
		for _, kind := range []byte(c.path) {
			p, err := protover.Parse(protos[kind])
			if err != nil {
				t.Fatal(err)
			}
			target := linkspec.Target{RelayID: ident.RelayID{Ed: ident.Ed25519ID{1}}, Ntor: ident.X25519Key{1}, Proto: p}
			if kind == 'x' {
				target.Ntor = ident.X25519Key{}
			}
			targets = append(targets, target)
		}
		for policy, content := range map[PQPolicy]bool{PQPrefer: true, PQOff: true, PQRequireOne: c.one, PQRequireAll: c.all} {
			plan, err := policy.Plan(handshake.PQ768, targets)
			if !content {
				if !fault.Is(err, fault.Refused) {
					t.Errorf("%s under policy %d: %v", c.path, policy, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s under policy %d: %v", c.path, policy, err)
				continue
			}
			var got strings.Builder
			for _, p := range plan {
				switch {
				case p.IsZero():
					got.WriteByte('-')
				case p.Set != handshake.PQ768:
					t.Errorf("%s: %v", c.path, p)
				default:
					got.WriteByte(byte(p.Carriage))
				}
			}
			want := c.plan
			if policy == PQOff {
				want = strings.Repeat("-", len(c.path))
			}
			if got.String() != want {
				t.Errorf("%s under policy %d: %s, want %s", c.path, policy, got.String(), want)
			}
		}
	}
	if _, err := PQPrefer.Plan(0, nil); !fault.Is(err, fault.Config) {
		t.Errorf("no parameter set: %v", err)
	}
}
