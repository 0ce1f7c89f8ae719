package cell

import "github.com/chivenet/chive/internal/bin"

// A Form is the cells and relay messages in which a circuit handshake travels:
// in cells to the first relay, and in relay messages to the relay before each
// later one, which turns them into cells.
type Form struct {
	Create, Created Command
	// Extend and Extended are zero where the form serves the first hop only.
	Extend, Extended RelayCommand

	create   func(b []byte) (Create2, error)
	created  func(b []byte) (Created2, error)
	extend   func(b []byte) (Extend2, error)
	extended func(b []byte) (Extended2, error)
}

// The forms.
var (
	// FormFast is CREATE_FAST, whose cells say no type and no length.
	FormFast = &Form{Create: CmdCreateFast, Created: CmdCreatedFast, create: readFast, created: readFastAnswer}
	// FormShort is CREATE2 and EXTEND2, each in one cell.
	FormShort = &Form{CmdCreate2, CmdCreated2, RelayExtend2, RelayExtended2,
		ParseCreate2, ParseCreated2, ParseExtend2, ParseExtended2}
	// FormLong is for what does not fit there: cells of variable length, and relay
	// messages in fragments (docs/spec/pq-circuits.md, section 4).
	FormLong = &Form{CmdLongCreate2, CmdLongCreated2, RelayLongExtend2, RelayLongExtended2,
		ParseLongCreate2, ParseLongCreated2, ParseLongExtend2, ParseLongExtended2}
)

var forms = [...]*Form{FormShort, FormFast, FormLong}

// FormOf returns the form whose Create cell has the given command, or nil.
func FormOf(create Command) *Form {
	for _, f := range forms {
		if f.Create == create {
			return f
		}
	}
	return nil
}

// IsCreated reports whether a cell with the command answers a handshake.
func (c Command) IsCreated() bool {
	for _, f := range forms {
		if f.Created == c {
			return true
		}
	}
	return false
}

// AppendCreate writes the body of a Create cell.
func (f *Form) AppendCreate(dst []byte, m *Create2) []byte {
	if f == FormFast {
		return append(dst, m.Data...)
	}
	return m.Append(dst)
}

// AppendCreated writes the body of a Created cell.
func (f *Form) AppendCreated(dst []byte, m *Created2) []byte {
	if f == FormFast {
		return append(dst, m.Data...)
	}
	return m.Append(dst)
}

// ParseCreate reads the body of a Create cell. A CREATE_FAST has the type
// HandshakeFast.
func (f *Form) ParseCreate(b []byte) (Create2, error) { return f.create(b) }

// ParseCreated reads the body of a Created cell.
func (f *Form) ParseCreated(b []byte) (Created2, error) { return f.created(b) }

// ParseExtend reads a whole Extend message; the form has one.
func (f *Form) ParseExtend(b []byte) (Extend2, error) { return f.extend(b) }

// ParseExtended reads a whole Extended message; the form has one.
func (f *Form) ParseExtended(b []byte) (Extended2, error) { return f.extended(b) }

func readFast(b []byte) (Create2, error) {
	m, err := ParseCreateFast(b)
	return Create2{HandshakeFast, m[:]}, err
}

func readFastAnswer(b []byte) (Created2, error) {
	m, err := ParseCreatedFast(b)
	return Created2{m[:]}, err
}

// Long messages (docs/spec/pq-circuits.md, section 4) have the bodies of CREATE2,
// CREATED2, EXTEND2 and EXTENDED2. They are not padded: where those end, nothing
// may follow. None is longer than MaxLong.

// ParseLongCreate2 reads the body of a LONG_CREATE2 cell.
func ParseLongCreate2(b []byte) (Create2, error) { return parseLong("LONG_CREATE2", b, readCreate2) }

// ParseLongCreated2 reads the body of a LONG_CREATED2 cell.
func ParseLongCreated2(b []byte) (Created2, error) {
	return parseLong("LONG_CREATED2", b, func(r *bin.Reader) Created2 { return Created2{Data: r.Vec16()} })
}

// ParseLongExtend2 reads a LONG_EXTEND2 that was put together.
func ParseLongExtend2(b []byte) (Extend2, error) {
	return parseLong("LONG_EXTEND2", b, func(r *bin.Reader) Extend2 { return readExtend2(r, b) })
}

// ParseLongExtended2 reads a LONG_EXTENDED2 that was put together.
func ParseLongExtended2(b []byte) (Extended2, error) {
	return parseLong("LONG_EXTENDED2", b, func(r *bin.Reader) Extended2 { return Extended2{Data: r.Vec16()} })
}

func parseLong[M any](what string, b []byte, read func(*bin.Reader) M) (M, error) {
	r := bin.NewReader(what, b)
	if len(b) > MaxLong {
		r.Fail("%d bytes, more than %d", len(b), MaxLong)
	}
	m := read(&r)
	if err := r.End(); err != nil {
		var none M
		return none, err
	}
	return m, nil
}
