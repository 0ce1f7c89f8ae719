package relay

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestRelayKeepsConsensuses: a relay keeps both consensuses in its data directory, and a relay that starts there can make
// diffs from them.
func TestRelayKeepsConsensuses(t *testing.T) {
	dir := t.TempDir()
	v := startVictim(t, func(cfg *Config) { cfg.DataDir = dir })
	texts := map[netdoc.Flavor][]byte{}
	for f, name := range map[netdoc.Flavor]string{netdoc.FlavorNS: "consensus-ns-old", netdoc.FlavorMicrodesc: "consensus-microdesc-old"} {
		b, err := os.ReadFile(filepath.Join("../netdoc/testdata/ctor15", name))
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = b
	}
	v.cache.KeepConsensus(texts[netdoc.FlavorMicrodesc])
	(&mirror{v.cache, nil}).KeepConsensus(texts[netdoc.FlavorNS])
	again := startVictim(t, func(cfg *Config) { cfg.DataDir = dir })
	for f, text := range texts {
		sum, err := netdoc.SHA3Signed(text)
		if err != nil {
			t.Fatal(err)
		}
		e := again.cache.docs.Earlier(f, sum)
		if e == nil {
			t.Errorf("%v: forgotten", f)
			continue
		}
		if got, err := e.Text(); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%v: %v", f, err)
		}
	}
}
