package fault

import (
	"errors"
	"io/fs"
	"testing"
)

// TestAlso: the error is the others, and says what it said.
func TestAlso(t *testing.T) {
	cause := errors.New("cause")
	err := Also(New(Refused, "no: %w", cause), fs.ErrPermission, fs.ErrExist)
	if err.Error() != "no: cause" || KindOf(err) != Refused {
		t.Errorf("%v of kind %v", err, KindOf(err))
	}
	for _, is := range []error{cause, Refused, fs.ErrPermission, fs.ErrExist} {
		if !errors.Is(err, is) {
			t.Errorf("it is not %v", is)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, Closed) {
		t.Error("it is what nobody said")
	}
}
