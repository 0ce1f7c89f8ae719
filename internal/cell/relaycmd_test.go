package cell

import (
	"slices"
	"testing"
)

// TestRelayCommands holds the table to what the specifications say in lists.
func TestRelayCommands(t *testing.T) {
	// proposal 329, "Multiplexed messages": those of streams, without BEGIN_DIR
	// and the SENDME of a stream; and docs/spec/half-close.md.
	numbered := []RelayCommand{RelayBegin, RelayData, RelayEnd, RelayConnected, RelayResolve, RelayResolved, RelayXoff, RelayXon, RelayHalfClose}
	opens := []RelayCommand{RelayBegin, RelayBeginDir, RelayResolve}
	seen := map[string]bool{}
	for i := range 256 {
		c := RelayCommand(i)
		row := relayCommands[c]
		if c.Known() != (row.name != "") || c.Known() != c.Has(byEither) {
			t.Errorf("%v: name %q, traits %b: a known command has a name and a sender", c, row.name, row.traits)
		}
		if row.name != "" && seen[row.name] {
			t.Errorf("%s is there twice", row.name)
		}
		seen[row.name] = true
		if c.Has(Numbered) != slices.Contains(numbered, c) || c.Has(Opens) != slices.Contains(opens, c) || c.Has(Counted) != (c == RelayData) {
			t.Errorf("%v: traits %b", c, row.traits)
		}
		if c.Has(OnStream) && c.Has(OnEither|Fragment) || c.Has(Opens|Counted|Numbered) && !c.Has(OnStream) {
			t.Errorf("%v: traits %b exclude each other", c, row.traits)
		}
	}
}

// TestForms: each form's cells and messages are of one kind, and no two forms
// share one.
func TestForms(t *testing.T) {
	for _, f := range forms {
		if FormOf(f.Create) != f || FormOf(f.Created) != nil || !f.Created.IsCreated() || f.Create.IsCreated() {
			t.Errorf("%v is not found by its Create cell alone", f.Create)
		}
		if f.Create.IsVariable() != f.Created.IsVariable() || f.Extend != 0 && f.Extend.Has(Fragment) != f.Create.IsVariable() {
			t.Errorf("%v and %v: a cell of variable length goes with fragments", f.Create, f.Extend)
		}
		m := Create2{HandshakeFast, make([]byte, CreateFastLen)}
		got, err := f.ParseCreate(f.AppendCreate(nil, &m))
		if err != nil || got.Type != m.Type || len(got.Data) != len(m.Data) {
			t.Errorf("%v: %v %v", f.Create, got, err)
		}
		a := Created2{make([]byte, CreatedFastLen)}
		if got, err := f.ParseCreated(f.AppendCreated(nil, &a)); err != nil || len(got.Data) != len(a.Data) {
			t.Errorf("%v: %v %v", f.Created, got, err)
		}
	}
	if FormOf(CmdCreate) != nil || CmdRelay.IsCreated() {
		t.Error("CREATE is obsolete, and RELAY answers nothing")
	}
}
