package fte

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestTablesOfAllFormats has a definitions file of many formats, none of which
// is beyond the bounds: a server that needs all of them is refused before they
// take more than their share.
func TestTablesOfAllFormats(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		// Different patterns, as nothing is shared between formats.
		for _, way := range []string{"request", "response"} {
			fmt.Fprintf(&b, `,"f%d-%s":{"regex":"(/[a-z0-9]+)+%c","fixed_slice":4096}`, i, way, 'A'+i%26)
		}
	}
	defs, err := ReadDefinitions("20200101", strings.NewReader("{"+b.String()[1:]+"}"), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Classic{Definitions: defs, Format: "f0"}).Acceptor(); !fault.Is(err, fault.Resource) {
		t.Errorf("a server with all formats: %v", err)
	}
	sum := 0
	for _, f := range defs.formats {
		if f.slice != nil {
			sum += f.lang.Size() + f.slice.Size()
		}
	}
	if sum == 0 || sum > maxTables {
		t.Errorf("the formats' tables take %d bytes", sum)
	}
	if _, err := (Classic{Definitions: defs, Format: "f0"}).Dialer(); err != nil {
		t.Errorf("a client, which needs one format: %v", err)
	}
}

// TestTablesOfStreams counts the tables of the streaming coder, too: they are larger than the
// others.
func TestTablesOfStreams(t *testing.T) {
	var b strings.Builder
	for i := range 26 {
		for _, way := range []string{"request", "response"} {
			fmt.Fprintf(&b, `,"f%d-%s":{"regex":"(%s%c)+","fixed_slice":64}`, i, way, strings.Repeat("[a-z]?", 600), 'A'+i)
		}
	}
	defs, err := ReadDefinitions("20200101", strings.NewReader("{"+b.String()[1:]+"}"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range defs.Names() {
		req, resp, _ := defs.Pair(name)
		if _, err = (Protocol{Request: req, Response: resp, Cert: serverKeyFor(t).Cert()}).Dialer(); err != nil {
			break
		}
	}
	if !fault.Is(err, fault.Resource) {
		t.Error("clients with all formats:", err)
	}
	sum := 0
	for _, f := range defs.formats {
		if f.slice != nil && f.streamErr == nil {
			sum += f.lang.Size() + f.slice.Size()
		}
	}
	if sum < maxTables/2 || sum > maxTables {
		t.Errorf("the formats' tables take %d bytes", sum)
	}
}
