package handshake

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
)

// keeper reads random bytes and keeps what it filled, of which handshakes make their secrets
// in place.
type keeper struct{ filled [][]byte }

func (k *keeper) Read(p []byte) (int, error) {
	k.filled = append(k.filled, p)
	return rand.Read(p)
}

// TestRelayForgets: of a relay's key for one handshake nothing is left in memory once it has
// answered, or has failed.
func TestRelayForgets(t *testing.T) {
	r, target := tableRelay(t, "Relay=2-6 ChivePQ=1-3,8")
	for _, k := range Kinds {
		if k.Cost == CostHash {
			continue // its answer has the secret in it
		}
		for _, fails := range []bool{false, true} {
			_, skin, err := k.Start(rand.Reader, target, nil)
			if err != nil {
				t.Fatal(k.Name, err)
			}
			var kept keeper
			_, _, err = k.Serve(&kept, r, skin, func([]byte) ([]byte, error) {
				if fails {
					return nil, errors.New("refused")
				}
				return nil, nil
			})
			if fails && k.Extensions {
				if err == nil || len(kept.filled) > 0 {
					t.Errorf("%s: %v; a key was made before the request was judged", k.Name, err)
				}
				continue
			}
			if err != nil || len(kept.filled) == 0 || len(kept.filled[0]) != 32 {
				t.Fatalf("%s: %v; %d keys", k.Name, err, len(kept.filled))
			}
			if key := kept.filled[0]; !bytes.Equal(key, make([]byte, len(key))) {
				t.Errorf("%s: the relay's key is still there", k.Name)
			}
		}
	}
}
