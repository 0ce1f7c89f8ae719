package netdoc

import (
	"bytes"
	"testing"
)

// A relay chooses the text of its "pr" line, and authorities copy it. Whatever it is, the
// consensus can be read; if it is no list of versions, the relay supports none.
func TestProtocolsOfOneRelay(t *testing.T) {
	doc := read(t, "ctor/consensus-microdesc")
	at := bytes.Index(doc, []byte("\npr ")) + len("\npr ")
	end := at + bytes.IndexByte(doc[at:], '\n')
	for text, want := range map[string]string{
		"Link=1-3 Relay=2 Link=5 Link=2": "Link=1-3,5 Relay=2", // C tor's authorities take this from a relay
		"Link=04-005":                    "Link=4-5",           // and this
		"Link=1 Relay=64":                "",
		"Link=2-1":                       "",
		"Link":                           "",
		"":                               "",
		"Link=4-5 ":                      "Link=4-5",
	} {
		changed := append(append(bytes.Clone(doc[:at]), text...), doc[end:]...)
		c, err := ParseConsensus(changed, nil, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Routers[0].Protocols.String(); got != want || c.Routers[0].Proto != text {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
		// C tor keeps the blanks at the end, and wants the line even if it is empty.
		if !bytes.Contains(c.Append(nil), []byte("\npr "+text+"\n")) {
			t.Errorf("%q is not copied as it is", text)
		}
	}
}

// One relay's entry takes no more memory than an honest one needs: a consensus is read
// before its signatures are checked.
func TestEntryBounds(t *testing.T) {
	doc := read(t, "ctor/consensus-ns")
	at := bytes.Index(doc, []byte("\npr ")) + 1
	for times, ok := range map[int]bool{10: true, 1000: false} {
		lines := bytes.Repeat([]byte("m 35 sha256=AAAA\n"), times)
		if _, err := ParseConsensus(append(append(bytes.Clone(doc[:at]), lines...), doc[at:]...), nil, nil); (err == nil) != ok {
			t.Errorf("%d microdescriptors of one relay: %v", times, err)
		}
	}
}
