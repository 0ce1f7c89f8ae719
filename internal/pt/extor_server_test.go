package pt

import (
	"bytes"
	"testing"

	"github.com/chivenet/chive/internal/ptspec"
)

func FuzzExtCommands(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x0b192.0.2.1:5\x00\x02\x00\x05obfs4\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x09\x00\x01x\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x02\x04\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readExtCommands(bytes.NewReader(b))
		if err == nil && p.Transport != "" && !ptspec.ValidName(p.Transport) {
			t.Fatalf("%+v", p)
		}
	})
}
