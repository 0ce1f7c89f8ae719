package netdoc

import (
	"bytes"
	"testing"
)

// TestVoteEntries: the relays that are read from the text are those that ParseVote keeps, and so is all else of the vote.
func TestVoteEntries(t *testing.T) {
	for _, file := range []string{"ctor/votes", "ctor15/votes", "arti/chutney/v3-status-votes"} {
		doc := read(t, file)
		kept := parsedVotes(t, doc)
		n := 0
		CheckVotes(doc, 9, nil, func(v *Vote, err error) {
			if err != nil {
				t.Fatal(err)
			}
			with := kept[n]
			n++
			if v.Routers != nil || v.Relays != len(with.Routers) || v.Digest != with.Digest || v.SHA256 != with.SHA256 || !bytes.Equal(v.Text, with.Text) {
				t.Errorf("%s: vote %d differs", file, n)
			}
			if &v.Text[0] != &doc[bytes.Index(doc, v.Text)] {
				t.Error("its text is a copy")
			}
			entries, again := v.Entries(new(Interner)), with.Entries(nil)
			measures := false
			for i := range with.Routers {
				rs, err := entries.Next()
				same, _ := again.Next()
				if err != nil || rs == nil || same != &with.Routers[i] {
					t.Fatalf("%s: relay %d: %v", file, i, err)
				}
				measures = measures || rs.HasMeasured
				if got, want := rs.append(nil, FlavorNS, true), with.Routers[i].append(nil, FlavorNS, true); !bytes.Equal(got, want) {
					t.Errorf("%s: relay %d:\n%s\n%s", file, i, got, want)
				}
			}
			if v.Measures != measures || with.Measures != measures {
				t.Errorf("%s: vote %d measures: %v, %v, %v", file, n, measures, v.Measures, with.Measures)
			}
			for _, e := range []*VoteEntries{entries, again} {
				if rs, err := e.Next(); rs != nil || err != nil {
					t.Errorf("%s: after the last relay: %v, %v", file, rs, err)
				}
			}
		})
		if n != len(kept) || n == 0 {
			t.Errorf("%s: %d votes, not %d", file, n, len(kept))
		}
	}
}
