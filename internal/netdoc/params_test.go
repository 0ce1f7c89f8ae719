package netdoc

import "testing"

// C tor's authorities refuse a vote, and its clients a consensus, with another order.
func TestParamsOrder(t *testing.T) {
	in := "a1=1 a=1 ab=-1 guard-n-primary-guards-to-use=1 guard-n-primary-guards=3"
	p, err := ParseParams(Args(in))
	if err != nil || p.String() != in {
		t.Errorf("%q, %v", p, err)
	}
	if v, ok := p.Lookup("guard-n-primary-guards"); !ok || v != 3 {
		t.Errorf("%d, %v", v, ok)
	}
}
