package builtin

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

func TestLimits(t *testing.T) {
	cfg, rest, err := limits(ptspec.Args{"max-connections": "7", "max-memory": "10000000", "format": "words"})
	if err != nil || cfg.MaxConns != 7 || cfg.MaxMemory != 10_000_000 || len(rest) != 1 || rest["format"] != "words" {
		t.Errorf("%+v, %v, %v", cfg, rest, err)
	}
	for k, v := range map[string]string{"max-connections": "0", "max-memory": "1000"} {
		for _, bad := range []string{v, "", "-1", "many", "999999999999999999999"} {
			if _, _, err := limits(ptspec.Args{k: bad}); !fault.Is(err, fault.Config) {
				t.Errorf("%s=%q: %v", k, bad, err)
			}
		}
	}
}

// FuzzLimits reads what an operator tells a transport.
func FuzzLimits(f *testing.F) {
	f.Add("fte:format=words;fte:max-connections=5")
	f.Add(`fte:a\=b=c;fte:max-memory=9MB`)
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ptspec.ParseServerOptions(s)
		if err != nil {
			return
		}
		for name, a := range all {
			cfg, rest, err := limits(a)
			if err != nil {
				continue
			}
			if cfg.MaxConns < 0 || cfg.MaxMemory < 0 || len(rest) > len(a) {
				t.Fatalf("%s: %+v of %v", name, cfg, a)
			}
			for _, k := range []string{"max-connections", "max-memory"} {
				if _, ok := rest[k]; ok {
					t.Fatalf("%s is left to the transport", k)
				}
			}
		}
	})
}
