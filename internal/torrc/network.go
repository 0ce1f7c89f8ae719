package torrc

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// The options of Chive's that several of C tor's say together: how the client reaches
// the network.
const (
	proxyKey = "proxy"
	reachKey = "reachable-addresses"
)

const strictKey = "strict-nodes"

// secrets are the options whose values no comment and no message repeats.
var secrets = []string{"Socks5ProxyUsername", "Socks5ProxyPassword", "HTTPProxyAuthenticator", "HTTPSProxyAuthenticator", "HidServAuth"}

// masked returns the line without its value, if that is a secret.
func masked(l Line) Line {
	if slices.ContainsFunc(secrets, func(name string) bool { return strings.EqualFold(name, l.Key) }) {
		l.Value = "(hidden)"
	}
	return l
}

// network keeps the lines that say how the client reaches the network, by their names.
type network map[string][]Line

// last returns the line that counts for an option that has one value.
func (n network) last(name string) (Line, bool) {
	all := n[name]
	if len(all) == 0 || all[len(all)-1].Value == "" {
		return Line{}, false
	}
	return all[len(all)-1], true
}

// flag reads an option that is 0 or 1.
func (n network) flag(name string, usual bool) (bool, error) {
	l, ok := n.last(name)
	if !ok {
		return usual, nil
	}
	on, err := Bool(l.Value)
	if err != nil {
		return false, fault.New(fault.Config, "%s: %s: %w", l.At(), l.Key, err)
	}
	return on, nil
}

// addNetwork makes the settings of these lines.
func (t *translation) addNetwork() error {
	if err := t.addProxy(); err != nil {
		return err
	}
	return t.addReach()
}

// given returns the lines of some options, without secrets.
func (n network) given(names ...string) (lines []Line) {
	for _, name := range names {
		for _, l := range n[name] {
			lines = append(lines, masked(l))
		}
	}
	return lines
}

// proxies are C tor's options for proxies.
var proxies = []struct{ name, scheme, port, login string }{
	{"Socks4Proxy", "socks4", "1080", ""},
	{"Socks5Proxy", "socks5", "1080", ""},
	{"HTTPSProxy", "http", "443", "HTTPSProxyAuthenticator"},
}

// addProxy makes one URL of a proxy and its password. If the proxy is unusable here,
// there is a setting nevertheless: it will be refused, and nothing connects without it.
func (t *translation) addProxy() error {
	all := t.network.given("Socks4Proxy", "Socks5Proxy", "Socks5ProxyUsername", "Socks5ProxyPassword", "HTTPSProxy", "HTTPSProxyAuthenticator")
	set := false
	for _, p := range proxies {
		l, ok := t.network.last(p.name)
		if !ok {
			continue
		}
		if set {
			return fault.New(fault.Config, "%s: %s: there is another proxy already, and C tor takes one", l.At(), l.Key)
		}
		set = true
		u := url.URL{Scheme: p.scheme, Host: withPort(numeric(strings.TrimSpace(l.Value)), p.port)}
		if u.Host == "" {
			return fault.New(fault.Config, "%s: %s: %q is not HOST:PORT", l.At(), l.Key, l.Value)
		}
		if login, ok := t.network.last(p.login); ok {
			user, password, _ := strings.Cut(login.Value, ":")
			u.User = url.UserPassword(user, password)
		}
		if user, ok := t.network.last("Socks5ProxyUsername"); ok && p.scheme == "socks5" {
			password, _ := t.network.last("Socks5ProxyPassword")
			u.User = url.UserPassword(user.Value, password.Value)
		}
		if _, err := netip.ParseAddrPort(u.Host); err != nil {
			t.note(l, "a name: give `proxy` the IP address, because Chive asks no system resolver; until then, it does not start", false)
		}
		t.doc.Settings = append(t.doc.Settings, &Setting{proxyKey, []string{u.String()}, all})
	}
	if !set {
		for _, l := range all {
			t.note(l, "there is no proxy that it could be for", true)
		}
	}
	return nil
}

// withPort returns HOST:PORT for a host with or without a port; empty: it is neither.
func withPort(s, port string) string {
	s = strings.TrimSpace(s)
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && a.Is6() {
		return "[" + a.String() + "]:" + port
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.String()
	}
	host, p, ok := strings.Cut(s, ":")
	if !ok {
		p = port
	}
	if n, err := strconv.ParseUint(p, 10, 16); host == "" || strings.ContainsAny(host, "[]/@ ") || err != nil || n == 0 {
		return ""
	}
	return host + ":" + p
}

// addReach makes one list of rules of the lines about what a firewall lets through.
func (t *translation) addReach() error {
	n := t.network
	fascist, err := n.flag("FascistFirewall", false)
	if err != nil {
		return err
	}
	four, err := n.flag("ClientUseIPv4", true)
	if err != nil {
		return err
	}
	six, err := n.flag("ClientUseIPv6", true)
	if err != nil {
		return err
	}
	var rules []string
	from := n["ReachableORAddresses"]
	if len(from) == 0 {
		from = n["ReachableAddresses"]
	}
	for _, l := range from {
		one, _, _ := policy(l.Value)
		rules = append(rules, one...)
	}
	if len(from) == 0 && fascist {
		ports := []string{"80", "443"}
		if l, ok := n.last("FirewallPorts"); ok {
			ports = list(l.Value)
		}
		for _, p := range ports {
			rules = append(rules, "*:"+p)
		}
	}
	open := len(rules) == 0
	for _, family := range []struct {
		use  bool
		rule string
	}{{four, "reject *4:*"}, {six, "reject *6:*"}} {
		if !family.use {
			rules = slices.Insert(rules, 0, family.rule)
		}
	}
	all := n.given("ReachableORAddresses", "ReachableAddresses", "FascistFirewall", "FirewallPorts", "ClientUseIPv4", "ClientUseIPv6")
	if len(rules) == 0 {
		for _, l := range all {
			t.note(l, "as without this line", true)
		}
		return nil
	}
	if open {
		rules = append(rules, "accept *:*")
	}
	t.doc.Settings = append(t.doc.Settings, &Setting{reachKey, rules, all})
	return nil
}

// addStrict demands the wanted relays, as C tor always does: its StrictNodes is about
// ExcludeNodes only, which Chive always obeys.
func (t *translation) addStrict() {
	var from []Line
	for _, s := range t.doc.Settings {
		if slices.Contains([]string{"entry-nodes", "middle-nodes", "exit-nodes"}, s.Key) && len(s.Values) > 0 {
			from = append(from, s.From...)
		}
	}
	if len(from) == 0 {
		return
	}
	t.doc.Settings = slices.DeleteFunc(t.doc.Settings, func(s *Setting) bool {
		if s.Key != strictKey {
			return false
		}
		from = append(from, s.From...)
		return true
	})
	t.doc.Settings = append(t.doc.Settings, &Setting{strictKey, []string{"true"}, from})
}
