package role

import "reflect"

// Take gives a role's struct of live options the values of a configuration: each field that is in
// cfg, too, with the same name, the same type and the tag. Embedded structs are taken as their fields. What is a
// text in cfg and something else in the role is left: who reads the text sets it.
//
// A public configuration has its fields one by one, because users write them in literals, in which
// Go does not let the fields of an embedded struct be named. So a role cannot embed a part of it, and
// this copies by name what would otherwise be copied by hand. Tests of the roles' packages find a
// live option that comes nowhere, and a field that no option sets.
func Take[L, C any](live *L, cfg *C) { take(reflect.ValueOf(live).Elem(), reflect.ValueOf(cfg).Elem()) }

func take(live, cfg reflect.Value) {
	for i := range live.NumField() {
		to := live.Type().Field(i)
		if to.Anonymous && to.Type.Kind() == reflect.Struct {
			take(live.Field(i), cfg)
			continue
		}
		if from, ok := cfg.Type().FieldByName(to.Name); ok && from.Type == to.Type && from.Tag.Get(liveTag) != "" {
			live.Field(i).Set(cfg.FieldByIndex(from.Index))
		}
	}
}
