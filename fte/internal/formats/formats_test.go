package formats

import (
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

func TestBuiltin(t *testing.T) {
	want := map[string]int{"20131224": 3, "20260110": 23}
	for _, release := range Releases() {
		d, err := Builtin(release)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(d.Names()); n != want[release] || len(d.Formats) != 2*n {
			t.Errorf("release %s has %d formats in %d entries", release, n, len(d.Formats))
		}
	}
	d, _ := Builtin(DefaultRelease)
	f, ok := d.Lookup("ftp-request")
	if !ok || f.Slice != 64 || f.Pattern != "^USER [a-z0-9]+$" || f.Base() != "ftp" {
		t.Errorf("ftp-request is %+v", f)
	}
	if f, _ := d.Lookup("dummy-request"); f.Slice != DefaultSlice {
		t.Errorf("a slice that is not given is %d", f.Slice)
	}
	// A server tries formats in the file's order.
	if names := d.Names(); names[0] != "http-simple" || !slices.Contains(names, "words") || names[22] != "dummy" {
		t.Errorf("order is %v", names)
	}
	if _, err := Builtin("20990101"); !fault.Is(err, fault.Config) {
		t.Errorf("unknown release: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ release, text, want string }{
		{"today", `{}`, "YYYYMMDD"},
		{"20200101", `[]`, "JSON object"},
		{"20200101", `{`, "EOF"},
		{"20200101", `{} {}`, "after the JSON object"},
		{"20200101", `{"a":{"regex":"x"}}`, "must end in"},
		{"20200101", `{"-request":{"regex":"x"}}`, "must end in"},
		{"20200101", `{"a-request":{}}`, "no regex"},
		{"20200101", `{"a-request":{"regex":1}}`, "a-request"},
		{"20200101", `{"a-request":{"regex":"x","fixed_slice":0}}`, "fixed_slice"},
		{"20200101", `{"a-request":{"regex":"x"},"a-request":{"regex":"x"}}`, "twice"},
		{"20200101", `{"a-request":{"regex":"` + strings.Repeat("x", 5000) + `"}}`, "longer"},
		{"20200101", strings.Repeat(" ", maxFile+1), "longer"},
	} {
		_, err := Read(c.release, strings.NewReader(c.text))
		if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v", c.text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(release20131224)
	f.Add([]byte(`{"a-request":{"regex":"x","fixed_slice":3,"description":"d"},"a-response":{"regex":"y"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read("20200101", strings.NewReader(string(data)))
		if err != nil {
			return
		}
		for _, fm := range d.Formats {
			if fm.Slice < 1 || fm.Slice > maxSlice || len(fm.Pattern) > maxPattern {
				t.Fatalf("out of bounds: %+v", fm)
			}
			if got, ok := d.Lookup(fm.Name); !ok || *got != fm {
				t.Fatalf("%q is not found again", fm.Name)
			}
		}
	})
}
