package fault

import "testing"

func TestExcept(t *testing.T) {
	closed, other := New(Closed, "closed"), New(Network, "lost")
	if err := Except(Closed, closed); err != nil {
		t.Error(err)
	}
	if err := Except(Closed, other); err != other {
		t.Error(err)
	}
	if err := Except(Closed, nil); err != nil {
		t.Error(err)
	}
}
