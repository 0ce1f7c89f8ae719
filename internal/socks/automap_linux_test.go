package socks

import (
	"testing"
)

// TestAutomapRedirect: curl, which knows of no proxy, reaches a name that has no address: the
// DNS port gives it one, and the transparent port leads the connection to the name.
func TestAutomapRedirect(t *testing.T) {
	for name, rules := range map[string][]string{
		"nft": {
			"nft add table inet t",
			"nft 'add chain inet t out { type nat hook output priority -100; }'",
			"nft add rule inet t out udp dport 53 redirect to :9053",
			"nft add rule inet t out ip daddr 127.192.0.0/10 tcp dport 1-65535 redirect to :9040",
			"nft add rule inet t out ip6 daddr fd15:159f:ab53::/48 tcp dport 1-65535 redirect to :9040",
		},
		"iptables": {
			"iptables -t nat -A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports 9053",
			"iptables -t nat -A OUTPUT -d 127.192.0.0/10 -p tcp -j REDIRECT --to-ports 9040",
			"ip6tables -t nat -A OUTPUT -d fd15:159f:ab53::/48 -p tcp -j REDIRECT --to-ports 9040",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &network{hosts: map[string]string{anOnion: peer(t, oneAnswer)}}
			d := automap(t, ".onion").Dialer(n)
			inNamespace(t, []string{"ip", name, "curl"}, func() {
				if !transServer(t, Config{Dialer: d}, "127.0.0.1:9040", "[::1]:9040") || !dnsServer(t, Config{Dialer: d}, "127.0.0.1:9053") {
					return
				}
				for _, r := range rules {
					if !shell(t, r) {
						return
					}
				}
				for _, family := range []string{"-4", "-6"} {
					if got, err := fetch(family, "http://"+anOnion+":8080/"); err != nil || got != "onion" {
						t.Errorf("curl %s: %q, %v", family, got, err)
					}
				}
				for _, stale := range []string{"http://127.192.77.1:8080/", "http://[fd15:159f:ab53::77]:8080/"} {
					if got, err := fetch(stale); err == nil {
						t.Errorf("%s, which has no name: %q", stale, got)
					}
				}
			})
			got := n.requests()
			if len(got) != 2 {
				t.Fatalf("%d requests reached the network: %+v", len(got), got)
			}
			for _, r := range got {
				if r.Host != anOnion || r.Port != 8080 || r.Key.Listener != "trans" {
					t.Errorf("%s port %d", r.Host, r.Port)
				}
			}
		})
	}
}

// dnsServer serves a DNS port on a socket of the calling thread's namespace.
func dnsServer(t *testing.T, cfg Config, addr string) bool {
	t.Helper()
	pc, err := ListenPacket(addr)
	if err != nil {
		t.Error(err)
		return false
	}
	s := NewDNS(cfg)
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("ServePacket: %v", err)
		}
	})
	return true
}
