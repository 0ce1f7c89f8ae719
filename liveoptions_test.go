package chive

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/options"
)

// liveFields calls yield for each field of a configuration that may change while it runs.
func liveFields(cfg any, yield func(f reflect.StructField)) {
	for f := range reflect.TypeOf(cfg).Fields() {
		if f.Tag.Get("reload") != "" {
			yield(f)
		}
	}
}

// change gives a field another value: a sample, or what is next to the one that it has.
func change(t *testing.T, name string, v reflect.Value, samples map[string]any) {
	t.Helper()
	switch s, ok := samples[name]; {
	case ok:
		v.Set(reflect.ValueOf(s))
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	default:
		t.Errorf("%s: this test needs a value that the option may have", name)
	}
}

// moved notes which of a role's live fields differ, and reports whether one does. Embedded structs
// are as their fields.
func moved(a, b reflect.Value, note map[string]bool) (any bool) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		switch {
		case f.Anonymous:
			any = moved(a.Field(i), b.Field(i), note) || any
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			note[f.Name], any = true, true
		case !note[f.Name]:
			note[f.Name] = false // it is there
		}
	}
	return any
}

// TestLiveOptions: each option of a client that may change while it runs has a row in the table, and
// reaches the client's live fields; and each of these is some option's.
func TestLiveOptions(t *testing.T) {
	file := func(name, text string) string {
		p := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	base := Config{
		GeoIPFile: file("four", "16777216,16777471,DE\n16777472,16777727,FR\n"), GeoIPv6File: file("six", "2001:db8::,2001:db8::ff,DE\n"),
		ExcludeNodes: []string{"{de}"}, MaxCircuitDirtiness: time.Minute, StreamTimeout: time.Minute,
	}
	samples := map[string]any{
		"EntryNodes": []string{"{de}"}, "MiddleNodes": []string{"{de}"}, "ExitNodes": []string{"{de}"}, "ExcludeNodes": []string{"{fr}"}, "ExcludeExitNodes": []string{"{de}"},
		"NodeFamilies": []string{"192.0.2.1,192.0.2.2"}, "GeoIPFile": file("other", "16777216,16777400,DE\n"), "GeoIPv6File": file("other6", "2001:db8::,2001:db8::fe,DE\n"),
		"GeoIPExcludeUnknown": SwitchOff, "ReachableAddresses": []string{"*:443"}, "MapAddress": []string{"a.example b.example"},
		"Bridges": []string{"192.0.2.1:443 " + strings.Repeat("AB", 20)}, "ClientTransportPlugins": []string{"x socks5 127.0.0.1:9"},
	}
	read := func(cfg Config) reflect.Value {
		r, err := cfg.read()
		if err != nil {
			t.Fatal(err)
		}
		r.Countries = nil // the same function always; its answers are in Path
		return reflect.ValueOf(r.Live)
	}
	rows, before, seen := map[string]bool{}, read(base), map[string]bool{}
	for o := range options.Client.All {
		rows[o.Field] = true
	}
	liveFields(base, func(f reflect.StructField) {
		next := base
		change(t, f.Name, reflect.ValueOf(&next).Elem().FieldByIndex(f.Index), samples)
		if !moved(before, read(next), seen) {
			t.Errorf("the option %s may change while a client runs, and no live field of the client changes", f.Name)
		}
		if !rows[f.Name] {
			t.Errorf("the field %s has no row in the table of options", f.Name)
		}
	})
	seen["Countries"] = true // see read
	seen["OnionKeys"] = true // the files of ClientOnionAuth are read again, and there is AddOnionClientKey
	for name, ok := range seen {
		if !ok {
			t.Errorf("client.Live has the field %s, which no option changes", name)
		}
	}
	if len(seen) < reflect.TypeFor[client.Live]().NumField() {
		t.Error(seen)
	}
}

// TestLiveOptionsOfOnionService is TestLiveOptions for a service; the table of its options is
// package daemon's.
func TestLiveOptionsOfOnionService(t *testing.T) {
	base := OnionConfig{Ports: []int{}, Targets: map[int]string{1: "127.0.0.1:1"}, IntroDoSDefense: true, IntroDoSRate: 1, IntroDoSBurst: 10, PoWDefense: true, PoWQueueRate: 1, PoWQueueBurst: 10}
	samples := map[string]any{
		"AuthorizedClients": []OnionClient{{ident.X25519Key{1}}}, "Targets": map[int]string{1: "127.0.0.1:2"},
		"MoreTargets": map[int][]string{1: {"127.0.0.1:2"}}, "ExportCircuitID": "haproxy",
	}
	live := func(cfg OnionConfig) reflect.Value {
		l, err := cfg.live()
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(l)
	}
	before, seen := live(base), map[string]bool{}
	liveFields(base, func(f reflect.StructField) {
		next := base
		change(t, f.Name, reflect.ValueOf(&next).Elem().FieldByIndex(f.Index), samples)
		if !moved(before, live(next), seen) {
			t.Errorf("OnionConfig.%s may change while a service runs, and no live field of the service changes", f.Name)
		}
	})
	seen["Ports"] = true // they stay, but a target's port must not be one of them
	for name, ok := range seen {
		if !ok {
			t.Errorf("hsservice.Live has the field %s, which no option changes", name)
		}
	}
	if len(seen) < reflect.TypeFor[hsservice.Live]().NumField() {
		t.Error(seen)
	}
}
