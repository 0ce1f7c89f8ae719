package exit

import "testing"

// An operator's rule about port 0, or about a range that runs backwards, is refused.
func TestPolicyPorts(t *testing.T) {
	for _, ports := range []string{"0", "1-0", "0-80", "80-0", "90-80", "65536", "80-"} {
		for _, line := range []string{"accept *:", "reject private:", "reject6 [2001:db8::]/32:", "accept 192.0.2.1:"} {
			if p, err := WholePolicy([]string{"reject *:25", line + ports}, PolicyOptions{}); err == nil {
				t.Errorf("%q: %v", line+ports, p)
			}
		}
	}
	if _, err := WholePolicy([]string{"reject *:25", "accept *:80-81"}, PolicyOptions{}); err != nil {
		t.Error(err)
	}
}
