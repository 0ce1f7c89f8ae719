package ptspec

import (
	"maps"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	// pt-spec 3.5's example.
	a, err := ParseClientArgs(`shared-secret=rahasia;secrets-file=/tmp/blob`)
	if err != nil || !maps.Equal(a, Args{"shared-secret": "rahasia", "secrets-file": "/tmp/blob"}) {
		t.Error(a, err)
	}
	a, err = ParseClientArgs(`k\;\=\\=v=w\;;k2=`)
	if err != nil || !maps.Equal(a, Args{`k;=\`: "v=w;", "k2": ""}) {
		t.Error(a, err)
	}
	// pt-spec 3.2.3's example.
	o, err := ParseServerOptions(`scramblesuit:key=banana;automata:rule=110;automata:depth=3`)
	if err != nil || o["scramblesuit"]["key"] != "banana" || o["automata"]["depth"] != "3" {
		t.Error(o, err)
	}
	for _, bad := range []string{"x", "=v", `k=v\`, strings.Repeat("k", MaxArgs) + "=v"} {
		if _, err := ParseClientArgs(bad); err == nil {
			t.Errorf("%.20q is read", bad)
		}
	}
	if got := (Args{"b": "1,2", "a": `x=\`}).MethodText(); got != `a=x\=\\,b=1\,2` {
		t.Error(got)
	}
}

func FuzzArgs(f *testing.F) {
	f.Add("k=v;a=b")
	f.Add(`a:k=v\;;b:c=d`)
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := ParseClientArgs(s); err == nil {
			for k := range a {
				if k == "" {
					t.Fatal("a key is empty")
				}
			}
		}
		ParseServerOptions(s)
	})
}
