package fte

import (
	"bytes"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestRoom: a format whose text has no room for a record with its padding, or for a hello, is
// refused at the start. What is not refused can send.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		name   string
		format *Format
		p      Protocol
		ok     bool
	}{
		{"most padding", mustFormat(t, "binary-request"), Protocol{Shape: Shape{Multiple: maxRecordPad / 2, Random: maxRecordPad / 2}}, false},
		{"half of it", mustFormat(t, "binary-request"), Protocol{Shape: Shape{Multiple: maxRecordPad / 2}}, true},
		{"most padding, richer", mustFormat(t, "hex-request"), Protocol{Shape: Shape{Multiple: maxRecordPad / 2, Random: maxRecordPad / 2}}, true},
		{"most padding, in bulk", mustFormat(t, "binary-request"), Protocol{Mode: Bulk, Shape: Shape{Multiple: maxRecordPad / 2, Random: maxRecordPad / 2}}, true},
		{"a long hello", NewFormat("poor", `([ab]x{60})+`, 1220), Protocol{}, false},
		{"a short hello", NewFormat("poor", `([ab]x{60})+`, 1220), Protocol{HelloPad: 1}, true},
	} {
		for _, mode := range []Mode{Strict, Cells} {
			p, key := c.p, serverKeyFor(t)
			if p.Mode == Bulk {
				mode = Bulk
			}
			p.Request, p.Response, p.Mode, p.Cert, p.Keys = c.format, mustFormat(t, "hex-response"), mode, key.Cert(), []*ServerKey{key}
			client, err := p.Dialer()
			if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
				t.Errorf("%s, %v: %v", c.name, mode, err)
				continue
			}
			p.Shape, p.HelloPad = Shape{}, 0
			server, err2 := p.Acceptor()
			if err2 != nil {
				t.Fatal(c.name, err2)
			}
			if err == nil {
				roundTrip(t, client, server, noise(3000, 1), bytes.Repeat([]byte{1}, 10))
			}
			p.Request, p.Response, p.Shape, p.HelloPad = p.Response, c.format, c.p.Shape, c.p.HelloPad
			if _, err = p.Acceptor(); c.ok && p.HelloPad != 1 && err != nil || !c.ok && !fault.Is(err, fault.Config) {
				t.Errorf("%s, %v, of a server: %v", c.name, mode, err)
			}
		}
	}
}
