package daemon

import (
	"reflect"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/options"
)

// TestLiveOnionOptions: each option of an onion service that may change while it runs is in what the
// service is reloaded with. TestEveryField sees a field of OnionConfig without an option.
func TestLiveOnionOptions(t *testing.T) {
	var base Onion
	options.Bind(options.Part{Table: onionTable, Of: &base})
	base.KeyDir, base.Ports, base.Dir = "/a", []string{"81=127.0.0.1:1"}, "/b"
	samples := map[string]any{"KeyDir": "/c", "Ports": []string{"82=127.0.0.1:1"}, "Dir": "/d", "ExportCircuitID": "haproxy"}
	type result struct {
		cfg    chive.OnionConfig
		folder *folder
	}
	read := func(o Onion) result {
		cfg, err := o.config(nil)
		if err != nil {
			t.Fatal(err)
		}
		return result{cfg, o.folder()}
	}
	before := read(base)
	for o := range onionTable.All {
		f, ok := reflect.TypeFor[Onion]().FieldByName(o.Field)
		if !ok || f.Tag.Get("reload") == "" {
			continue
		}
		next := base
		v := reflect.ValueOf(&next).Elem().FieldByIndex(f.Index)
		switch s, ok := samples[o.Field]; {
		case ok:
			v.Set(reflect.ValueOf(s))
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		default:
			t.Errorf("%s: this test needs a value that the option may have", o.Field)
		}
		if reflect.DeepEqual(before, read(next)) {
			t.Errorf("the option %s may change while a service runs, and changes nothing", o.Key)
		}
	}
}
