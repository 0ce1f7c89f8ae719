package tomlfile

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestEncode(t *testing.T) {
	type table struct {
		K int `toml:"k"`
	}
	got, err := Encode(struct {
		A table `toml:"a"`
	}{table{1}})
	if want := "[a]\nk = 1\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Encode(map[string]any{"f": func() {}}); !fault.Is(err, fault.Local) || got != nil {
		t.Errorf("%q, %v", got, err)
	}
}
