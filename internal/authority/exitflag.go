package authority

import "github.com/chivenet/chive/internal/netdoc"

// generalExit reports whether a policy accepts each of the ports 80 and 443 for a
// whole /8 network (C tor's exit_policy_is_general_exit). Private networks count only
// with private.
func generalExit(p netdoc.ExitPolicy, private bool) bool {
	return opens(p, 80, private) && opens(p, 443, private)
}

func opens(p netdoc.ExitPolicy, port uint16, private bool) bool {
	var refused [256]bool // /8 networks, or parts of them
	for _, r := range p {
		lo, hi, bits := 0, 255, 0
		if r.Net.IsValid() {
			if r.Net.Addr().Is6() {
				continue
			}
			bits = r.Net.Bits()
			lo = int(r.Net.Addr().As4()[0])
			hi = lo + 1<<max(8-bits, 0) - 1
		}
		if r.Six || port < r.Ports.Lo || port > r.Ports.Hi || r.Accept && bits > 8 {
			continue
		}
		for i := lo; i <= hi; i++ {
			switch {
			case refused[i], !private && (i == 0 || i == 10 || i == 127):
			case r.Accept:
				return true
			default:
				refused[i] = true
			}
		}
	}
	return false
}
