package relay

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive"
)

// machine returns a finder for a machine with some addresses, whose name server knows one name.
func machine(addrs ...string) finder {
	return finder{
		lookup: func(name string) ([]netip.Addr, error) {
			switch name {
			case "bridge.example.org":
				return []netip.Addr{netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("198.51.100.5"), netip.MustParseAddr("198.51.100.6")}, nil
			case "inside.example.org":
				return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
			}
			return nil, errors.New("no such host")
		},
		own: func() (out []net.Addr, err error) {
			for _, s := range addrs {
				ip, n, err := net.ParseCIDR(s)
				if err != nil {
					return nil, err
				}
				out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
			}
			return out, nil
		},
	}
}

// TestAddresses: what others reach is what the operator says, by address or name, or what the ORPort
// says, or else the machine's one public address.
func TestAddresses(t *testing.T) {
	one := machine("127.0.0.1/8", "10.1.2.3/8", "198.51.100.7/24", "::1/128", "2001:db8::7/64")
	two := machine("198.51.100.7/24", "203.0.113.7/24")
	behind := machine("127.0.0.1/8", "192.168.1.2/24")
	alone := machine("127.0.0.1/8")
	obfs4 := []string{"obfs4 exec /usr/bin/obfs4proxy"}
	for name, c := range map[string]struct {
		cfg  Config
		at   finder
		lab  bool
		want string // "" : those of the ORPort; "!": an error with the rest
	}{
		"given":                       {Config{ORPort: []string{"9001"}, Address: []string{"198.51.100.9:443", "[2001:db8::9]:443"}}, one, false, "198.51.100.9:443 [2001:db8::9]:443"},
		"given, without ports":        {Config{ORPort: []string{"9001"}, Address: []string{"198.51.100.9", "2001:db8::9"}}, one, false, "198.51.100.9:0 [2001:db8::9]:0"},
		"in brackets":                 {Config{ORPort: []string{"9001"}, Address: []string{"[2001:db8::9]"}}, one, false, "[2001:db8::9]:0"},
		"a name":                      {Config{ORPort: []string{"9001"}, Address: []string{"bridge.example.org"}}, one, false, "198.51.100.5:0"},
		"a name, with an IPv6 port":   {Config{ORPort: []string{"9001", "[::]:9001"}, Address: []string{"bridge.example.org:443"}}, one, false, "198.51.100.5:443 [2001:db8::5]:443"},
		"a name, in a network's lab":  {Config{ORPort: []string{"9001"}, Address: []string{"inside.example.org"}}, one, true, "10.0.0.5:0"},
		"a name of a private address": {Config{ORPort: []string{"9001"}, Address: []string{"inside.example.org"}}, one, false, "!inside.example.org has no IPv4 address"},
		"a name that is not known":    {Config{ORPort: []string{"9001"}, Address: []string{"x.example.org"}}, one, false, "!no such host"},
		"nothing":                     {Config{ORPort: []string{"9001"}}, one, false, "198.51.100.7:0"},
		"all of IPv6":                 {Config{ORPort: []string{"[::]:9001"}}, one, false, "198.51.100.7:0"},
		"nothing, two addresses":      {Config{ORPort: []string{"9001"}}, two, false, "!2 public IPv4 addresses"},
		"nothing, behind a router":    {Config{ORPort: []string{"9001"}}, behind, false, "!no public IPv4 address"},
		"nothing, in a lab":           {Config{ORPort: []string{"9001"}}, behind, true, "192.168.1.2:0"},
		"nothing, on loopback":        {Config{ORPort: []string{"9001"}}, alone, true, "127.0.0.1:0"},
		"the ORPort's":                {Config{ORPort: []string{"9001", "198.51.100.8:9001"}}, one, false, ""},
		"a private ORPort's":          {Config{ORPort: []string{"10.1.2.3:9001"}}, one, false, ""}, // which Check refuses
		"a bridge's":                  {Config{ORPort: []string{"127.0.0.1:0"}, Bridge: true, ServerTransportPlugins: obfs4}, one, false, "198.51.100.7:0"},
		"a bridge's in a lab":         {Config{ORPort: []string{"127.0.0.1:0"}, Bridge: true, ServerTransportPlugins: obfs4}, one, true, ""},
		"a bridge's without plugins":  {Config{ORPort: []string{"127.0.0.1:0"}, Bridge: true}, one, false, ""}, // which Check refuses
		"a mistake":                   {Config{ORPort: []string{"9001"}, Address: []string{"198.51.100.300"}}, one, false, "!is not IP:PORT"},
		"a mistake in a port":         {Config{ORPort: []string{"9001"}, Address: []string{"example.org:0"}}, one, false, "!is not IP:PORT"},
		"a local name":                {Config{ORPort: []string{"9001"}, Address: []string{"localhost"}}, one, false, "!is not IP:PORT"},
	} {
		var listen, got []netip.AddrPort
		in, err := c.cfg.inner(func(_ *Config, l []netip.AddrPort, _ bool) ([]netip.AddrPort, error) { listen = l; return nil, nil })
		if err != nil || len(in.Listen) == 0 {
			t.Fatal(name, err)
		}
		got, err = c.at.addresses(&c.cfg, listen, c.lab)
		if why, wrong := strings.CutPrefix(c.want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v %v, want %q", name, got, err, why)
			}
			continue
		}
		var text []string
		for _, a := range got {
			text = append(text, a.String())
		}
		if err != nil || strings.Join(text, " ") != c.want {
			t.Errorf("%s: %q %v, want %q", name, text, err, c.want)
		}
	}
}

// lab returns a network whose authority does not answer, and whose relays may be anywhere.
func lab(t *testing.T) *chive.Network {
	t.Helper()
	nw, err := chive.ParseNetwork([]byte("name = \"one\"\n[[authority]]\nnickname = \"a\"\nv3ident = \"0101010101010101010101010101010101010101\"\nrsa = \"0202020202020202020202020202020202020202\"\norport = [\"127.0.0.1:1\"]\n[testing]\nallow_private_addresses = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	return nw
}

// TestChosenPort: an address without a port gets that of the ORPort's listener, also one that
// the system chose, and a reload does not change it.
func TestChosenPort(t *testing.T) {
	cfg := Config{Network: lab(t), DataDir: t.TempDir(), Nickname: "r", ORPort: []string{"127.0.0.1:0"}, Address: []string{"198.51.100.7", "2001:db8::7"}, AssumeReachable: true, ShutdownWait: -1}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := r.Addrs()
	if len(got) != 2 || got[0].Addr().String() != "198.51.100.7" || got[1].Addr().String() != "2001:db8::7" || got[0].Port() == 0 || got[1].Port() != got[0].Port() {
		t.Fatal(got)
	}
	c, err := net.Dial("tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), got[0].Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	cfg.ExitPolicy = []string{"accept *:*"}
	if err := r.Reload(cfg); err != nil || !slices.Equal(r.Addrs(), got) {
		t.Error(r.Addrs(), err)
	}
	// An exit that a reload makes refuses the addresses that the start found.
	if in, err := r.again(&cfg); err != nil || in.Exit.Policy.Allows(got[0].Addr(), 80) || !in.Exit.Policy.Allows(got[0].Addr().Next(), 80) {
		t.Error(err, in.Exit)
	}
}
