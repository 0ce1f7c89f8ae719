package role

import "reflect"

// Copy returns a configuration with lists and maps of its own. Those of the caller may
// change later, and a running role must notice that: see CheckReload.
func Copy[C any](cfg C) C {
	v := reflect.ValueOf(&cfg).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch k := f.Kind(); {
		case k == reflect.Slice && !f.IsNil():
			f.Set(reflect.AppendSlice(reflect.MakeSlice(f.Type(), 0, f.Len()), f))
		case k == reflect.Map && !f.IsNil():
			m := reflect.MakeMapWithSize(f.Type(), f.Len())
			for it := f.MapRange(); it.Next(); {
				x := it.Value()
				if x.Kind() == reflect.Slice && !x.IsNil() {
					x = reflect.AppendSlice(reflect.MakeSlice(x.Type(), 0, x.Len()), x)
				}
				m.SetMapIndex(it.Key(), x)
			}
			f.Set(m)
		}
	}
	return cfg
}
