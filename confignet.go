package chive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/upstream"
)

// maxProxy bounds a file with the URL of a proxy, in bytes.
const maxProxy = 4 << 10

// upstream reads the proxy; nil: none.
func (c *Config) upstream() (*upstream.Proxy, error) {
	text := c.Proxy
	if name, ok := strings.CutPrefix(text, "@"); ok {
		info, err := os.Stat(name)
		if err != nil {
			return nil, options.Wrong("Proxy", "%w", err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return nil, options.Wrong("Proxy", "others have access to %s: chmod 600", name)
		}
		b, err := atomicfile.ReadRegular(name, maxProxy)
		if err != nil {
			return nil, options.Wrong("Proxy", "%w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	if c.Proxy == "" {
		return nil, nil
	}
	p, err := upstream.Parse(text)
	if err != nil {
		return nil, options.Wrong("Proxy", "%w", err)
	}
	return p, nil
}

// outbound reads the source addresses.
func (c *Config) outbound(r *choices) error {
	all, err := options.Sources("OutboundBindAddress", c.OutboundBindAddress, netaddr.Sources{})
	if err == nil {
		r.outbound.OR, err = options.Sources("OutboundBindAddressOR", c.OutboundBindAddressOR, all)
	}
	if err == nil {
		r.outbound.PT, err = options.Sources("OutboundBindAddressPT", c.OutboundBindAddressPT, all)
	}
	r.outbound.Rest = all
	return err
}

// addrMap reads the rules of MapAddress.
func (c *Config) addrMap() (*client.AddrMap, error) {
	m, err := client.ParseAddrMap(c.MapAddress)
	if err != nil {
		return nil, options.Wrong("MapAddress", "%w", err)
	}
	return m, nil
}

// paths reads what the user says about the choice of relays.
func (c *Config) paths(up *upstream.Proxy) (p path.Config, err error) {
	p.Strict = c.StrictNodes
	p.SameSubnet = c.Network != nil && !c.Network.dir.Testing.EnforceDistinctSubnets
	if p.Reachable, err = path.ParseReach(c.ReachableAddresses); err != nil {
		return p, options.Wrong("ReachableAddresses", "%w", err)
	}
	if up != nil && up.OnlyIPv4() {
		p.Reachable = p.Reachable.WithoutIPv6()
	}
	type nodeSet struct {
		field   string
		nodes   []string
		set     *path.Set
		exclude bool
	}
	sets := []nodeSet{
		{"EntryNodes", c.EntryNodes, &p.Entry, false}, {"MiddleNodes", c.MiddleNodes, &p.Middle, false}, {"ExitNodes", c.ExitNodes, &p.Exit, false},
		{"ExcludeNodes", c.ExcludeNodes, &p.Exclude, true}, {"ExcludeExitNodes", c.ExcludeExitNodes, &p.ExcludeExit, true},
	}
	p.Families = make([]path.Set, len(c.NodeFamilies))
	for i, list := range c.NodeFamilies {
		sets = append(sets, nodeSet{"NodeFamilies", strings.Split(list, ","), &p.Families[i], false})
	}
	why := ""
	if c.GeoIPExcludeUnknown == SwitchOn {
		why = "GeoIPExcludeUnknown"
	}
	for _, s := range sets {
		if *s.set, err = path.ParseSet(s.nodes); err != nil {
			return p, options.Wrong(s.field, "%w", err)
		}
		if why == "" && s.set.Countries() {
			why = s.field
		}
	}
	if why == "" {
		return p, nil
	}
	if p.Countries, err = c.countries(why); err != nil {
		return p, err
	}
	for _, s := range sets {
		unknown := s.exclude && (c.GeoIPExcludeUnknown == SwitchOn || c.GeoIPExcludeUnknown == SwitchAuto && s.set.Countries())
		if !unknown && !s.set.Countries() {
			continue
		}
		if *s.set, err = s.set.WithCountries(p.Countries, unknown); err != nil {
			return p, options.Wrong(s.field, "%w", err)
		}
	}
	return p, nil
}

// countries reads the files that know countries; why is the option that needs them.
func (c *Config) countries(why string) (*geoip.Table, error) {
	four, err := openGeoIP(c.GeoIPFile, geoip.UsualFile)
	if errors.Is(err, fs.ErrNotExist) && c.GeoIPFile == "" {
		return nil, options.Wrong("GeoIPFile", "%s asks for countries, and there is no %s: install tor-geoipdb, or name a file of C tor's form or a MaxMind database", why, geoip.UsualFile)
	}
	if err != nil {
		return nil, options.Wrong("GeoIPFile", "%w", err)
	}
	defer four.Close()
	six, err := openGeoIP(c.GeoIPv6File, geoip.UsualFile6)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && c.GeoIPv6File == "") {
		return nil, options.Wrong("GeoIPv6File", "%w", err)
	}
	from6 := geoip.Source{Name: geoip.UsualFile6, Usual: c.GeoIPv6File == ""}
	if err == nil {
		defer six.Close()
		from6.Name, from6.Text = six.Name(), six
	}
	t, err := geoip.Parse(geoip.Source{Name: four.Name(), Text: four}, from6)
	if err != nil {
		return nil, options.Wrong("GeoIPFile", "%w", err)
	}
	return t, nil
}

// countryFiles says which files countries would read, and whether they are others than before: by their names, sizes and times.
func (c *Config) countryFiles() string {
	var out strings.Builder
	for _, name := range []string{cmp.Or(c.GeoIPFile, geoip.UsualFile), cmp.Or(c.GeoIPv6File, geoip.UsualFile6)} {
		if st, err := os.Stat(name); err == nil {
			fmt.Fprintf(&out, "%q %d %d\n", name, st.Size(), st.ModTime().UnixNano())
		}
	}
	return out.String()
}

// openGeoIP opens a file, the usual one if none is named.
func openGeoIP(name, usual string) (*os.File, error) {
	if name == "" {
		name = usual
	}
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() { // a pipe would hold the program
		return nil, fault.New(fault.Config, "%s: %w", name, atomicfile.ErrNotRegular)
	}
	return os.Open(name)
}
