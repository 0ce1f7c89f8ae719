package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	moria = "moria1 orport=9201 v3ident=F533C81CEF0BC0267857C99B2F471ADF249FA232 128.31.0.39:9231 1A25C6358DB91342AA51720A5038B72742732498"
	tor26 = "tor26 orport=443 v3ident=2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C ipv6=[2a02:16a8:662:2203::1]:443 217.196.147.77:80 FAA4 BCA4 A6AC 0FB4 CA2F 8AD5 A11D 9E12 2BA8 94F6"
	serge = "Serge orport=9001 bridge 66.111.2.131:9030 BA44 A889 E64B 93FA A2B1 14E0 2C2A 279A 8555 C533"
	first = "96.9.98.172 orport=443 id=D049A6601302014C5C3362BD856A847D52CE2148"
	other = "51.77.214.113 orport=9100 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA286 ipv6=[2001:41d0:404:200::7d64]:9100"
)

// small returns a peer whose program lists a network, with more strings.
func small(more ...string) *peer {
	p := &peer{version: "0.4.9.15", strings: []string{"orport=", "weight=", "Bad FallbackDir option %s", first, other, moria, serge, tor26}}
	for i := range minFallbacks {
		p.strings = append(p.strings, fmt.Sprintf("23.0.0.%d orport=9001 id=%040X", i+1, i))
	}
	for i := range minAuthorities {
		p.strings = append(p.strings, fmt.Sprintf("dir%d orport=443 v3ident=%040X 24.0.0.1:80 %040X", i, 1000+i, 2000+i))
	}
	p.strings = append(p.strings, more...)
	p.releases = []release{{version: "0.4.9.15", items: []item{{text: "Regenerate fallback directories generated on October 28, 2026."}}}}
	return p
}

func TestNetwork(t *testing.T) {
	n, err := networkOf(small())
	if err != nil {
		t.Fatal(err)
	}
	text := n.text()
	for _, want := range []string{
		"\nfrom tor 0.4.9.15 2026-10-28\n",
		"\nauthority moria1 F533C81CEF0BC0267857C99B2F471ADF249FA232 1A25C6358DB91342AA51720A5038B72742732498 128.31.0.39:9231 128.31.0.39:9201\n",
		"\nauthority tor26 2F3DF9CA0E5D36F2685A2DA67184EB8DCB8CBA8C FAA4BCA4A6AC0FB4CA2F8AD5A11D9E122BA894F6 217.196.147.77:80 217.196.147.77:443 [2a02:16a8:662:2203::1]:443\n",
		"\nfallback D049A6601302014C5C3362BD856A847D52CE2148 96.9.98.172:443\n",
		"\nfallback 4134CDC6B5AEFDE875FA1212DA380201D9BFA286 51.77.214.113:9100 [2001:41d0:404:200::7d64]:9100\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if a, f := len(n.authorities), len(n.fallbacks); a != minAuthorities+2 || f != minFallbacks+2 || strings.Contains(text, "Serge") {
		t.Errorf("%d authorities, %d fallbacks", a, f)
	}
}

// TestNetworkRefuses: one entry that is wrong or not known here, and there is no list at all.
func TestNetworkRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"small letters":            strings.Replace(other, "4134CD", "4134cd", 1) + "1",
		"short fingerprint":        "23.0.1.1 orport=9001 id=ABCD",
		"no fingerprint":           "23.0.1.1 orport=9001",
		"no port":                  "23.0.1.1 orport=0 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287",
		"large port":               "23.0.1.1 orport=65536 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287",
		"private":                  "10.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287",
		"private ipv6":             "23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287 ipv6=[fe80::1]:1",
		"not ipv6":                 "23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287 ipv6=23.0.1.1:1",
		"no address":               "999.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287",
		"an option":                "23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287 weight=2",
		"a port twice":             "23.0.1.1 orport=9001 orport=9002 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287",
		"twice":                    first,
		"an authority twice":       moria,
		"an authority's option":    strings.Replace(moria, "orport", "upload=http://x orport", 1),
		"an authority's v3ident":   "dizum orport=443 45.66.35.11:80 7EA6 EAD6 FD83 083C 538F 4403 8BBF A077 587D D755",
		"an authority's print":     "dizum orport=443 v3ident=E8A9C45EDE6D711294FADF8E7951F4DE6CA56B58 45.66.35.11:80 7EA6 EAD6",
		"an authority's address":   "dizum orport=443 v3ident=E8A9C45EDE6D711294FADF8E7951F4DE6CA56B58 127.0.0.1:80 7EA6 EAD6 FD83 083C 538F 4403 8BBF A077 587D D755",
		"a relay with a v3ident":   "23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287 v3ident=E8A9C45EDE6D711294FADF8E7951F4DE6CA56B58",
		"a relay that is a bridge": "23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287 bridge",
	} {
		if _, err := networkOf(small(s)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := networkOf(small("23.0.1.1 orport=9001 id=4134CDC6B5AEFDE875FA1212DA380201D9BFA287")); err != nil {
		t.Error(err)
	}
}

// TestNetworkNumbers: a list with too few or too many entries is a mistake.
func TestNetworkNumbers(t *testing.T) {
	without := func(prefix string) *peer {
		p := small()
		p.strings = slices.DeleteFunc(p.strings, func(s string) bool { return strings.HasPrefix(s, prefix) })
		return p
	}
	var relays, authorities []string
	for i := range maxFallbacks {
		relays = append(relays, fmt.Sprintf("25.0.%d.%d orport=9001 id=%040X", i/250, i%250+1, 5000+i))
	}
	for i := range maxAuthorities {
		authorities = append(authorities, fmt.Sprintf("more%d orport=443 v3ident=%040X 24.0.0.1:80 %040X", i, 3000+i, 4000+i))
	}
	for name, p := range map[string]*peer{"no fallbacks": without("23."), "no authorities": without("dir"), "many fallbacks": small(relays...), "many authorities": small(authorities...)} {
		if _, err := networkOf(p); err == nil || !strings.Contains(err.Error(), "plausible") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
