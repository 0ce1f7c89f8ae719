package dirserver

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// largeConsensus is what MakeDiff looks at in a consensus of some megabytes. Two of different versions
// differ in most of their bytes.
func largeConsensus(version byte) []byte {
	var b bytes.Buffer
	b.WriteString("network-status-version 3\n")
	for i := range 20000 {
		var id [20]byte
		binary.BigEndian.PutUint32(id[:], uint32(i))
		fmt.Fprintf(&b, "r n %s 0\nm %s\n", base64.RawStdEncoding.EncodeToString(id[:]), bytes.Repeat([]byte{'a' + version}, 300))
	}
	b.WriteString("directory-footer\ndirectory-signature x\n")
	return b.Bytes()
}

// TestDiffRoom: the diffs that are kept may be longer the larger the consensus is, and not without end.
func TestDiffRoom(t *testing.T) {
	text := largeConsensus(0)
	to := &Consensus{Flavor: netdoc.FlavorMicrodesc, Doc: keptDoc(text), SHA3: [32]byte{1}}
	s := New(Config{Docs: new(Memory), Log: slog.New(slog.DiscardHandler)})
	kept, size := 0, 0
	for version := range byte(6) {
		from := &Earlier{Flavor: to.Flavor, SHA3: [32]byte{2, version}, text: largeConsensus(version + 1)}
		if d := s.diffs.get(s, from, to); d != nil {
			kept++
			size += len(d.Bytes())
		}
	}
	if size <= 16<<20 || size > 4*len(text) || kept != 4 {
		t.Errorf("%d diffs of %d bytes are kept, to a consensus of %d", kept, size, len(text))
	}
}
