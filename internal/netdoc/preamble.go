package netdoc

import (
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/protover"
)

// seen records the keywords that occurred. Each may occur only once.
type seen map[string]bool

func (s *seen) once(keyword []byte) error {
	if (*s)[string(keyword)] {
		return fault.New(fault.Directory, "it occurs twice")
	}
	if *s == nil {
		*s = make(seen)
	}
	(*s)[string(keyword)] = true
	return nil
}

// require returns an error that names the first keyword that was not seen.
func (s seen) require(doc string, keywords ...string) error {
	for _, k := range keywords {
		if !s[k] {
			return fault.New(fault.Directory, "%s: no %q line", doc, k)
		}
	}
	return nil
}

// maxPreamble bounds the text before the relays of a consensus or a vote. It is
// read before anything about it is verified. In the public network it has about
// 20 kB.
const maxPreamble = 1 << 18

const (
	maxSources  = 64
	maxPackages = 1000
)

// appendPackage reads a "package" line.
func appendPackage(list []string, a Args) ([]string, error) {
	if len(list) == maxPackages {
		return nil, fault.New(fault.Resource, "more than %d", maxPackages)
	}
	return append(list, string(a.Rest())), nil
}

// parseItem reads one line before the first relay.
func (c *Preamble) parseItem(it *Item, seen *seen, first bool) (err error) {
	if first != it.Is("network-status-version") {
		return fault.New(fault.Directory, "network-status-version must come first and once")
	}
	a := it.Args
	switch string(it.Keyword) {
	case "dir-source", "contact", "vote-digest":
		return c.parseSource(it)
	case "network-status-version", "vote-status", "consensus-method", "valid-after", "fresh-until", "valid-until", "voting-delay", "client-versions", "server-versions", "known-flags", "params", "recommended-client-protocols", "recommended-relay-protocols", "required-client-protocols", "required-relay-protocols", "shared-rand-previous-value", "shared-rand-current-value":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case "network-status-version":
		return c.parseVersion(a)
	case "vote-status":
		if w, _ := a.Next(); string(w) != "consensus" {
			return fault.New(fault.Directory, "%q, not consensus", clip(w))
		}
	case "consensus-method":
		v, err := a.uint("method", 1<<16)
		c.Method = int(v)
		return err
	case "valid-after":
		c.ValidAfter, err = a.time()
	case "fresh-until":
		c.FreshUntil, err = a.time()
	case "valid-until":
		c.ValidUntil, err = a.time()
	case "voting-delay":
		c.VoteDelay, c.DistDelay, err = parseDelays(a)
	case "client-versions":
		c.ClientVersions = string(a.Rest())
	case "server-versions":
		c.ServerVersions = string(a.Rest())
	case "known-flags":
		c.KnownFlags = strings.Fields(string(a))
	case "params":
		c.Params, err = ParseParams(a)
	case "package":
		c.Packages, err = appendPackage(c.Packages, a)
	case "recommended-client-protocols":
		c.RecommendedClient, err = protover.Parse(string(a.line()))
	case "recommended-relay-protocols":
		c.RecommendedRelay, err = protover.Parse(string(a.line()))
	case "required-client-protocols":
		c.RequiredClient, err = protover.Parse(string(a.line()))
	case "required-relay-protocols":
		c.RequiredRelay, err = protover.Parse(string(a.line()))
	case "shared-rand-previous-value":
		c.SharedRandPrevious, err = parseSharedRandom(a)
	case "shared-rand-current-value":
		c.SharedRandCurrent, err = parseSharedRandom(a)
	}
	return err
}

func (c *Preamble) parseVersion(a Args) error {
	if v, _ := a.Next(); string(v) != "3" {
		return fault.New(fault.Directory, "version %q, not 3", clip(v))
	}
	flavor, ok := a.Next()
	switch {
	case !ok || string(flavor) == "ns":
		c.Flavor = FlavorNS
	case string(flavor) == "microdesc":
		c.Flavor = FlavorMicrodesc
	default:
		return fault.New(fault.Directory, "unknown flavor %q", clip(flavor))
	}
	return nil
}

func (c *Preamble) parseSource(it *Item) error {
	a := it.Args
	if it.Is("dir-source") {
		if len(c.Sources) == maxSources {
			return fault.New(fault.Resource, "more than %d", maxSources)
		}
		src, err := parseDirSource(a)
		if err == nil {
			c.Sources = append(c.Sources, src)
		}
		return err
	}
	if len(c.Sources) == 0 {
		return fault.New(fault.Directory, "before any dir-source")
	}
	src := &c.Sources[len(c.Sources)-1]
	if it.Is("contact") {
		src.Contact = string(a.Rest())
		return nil
	}
	return a.hex("vote digest", src.VoteDigest[:])
}

func parseDirSource(a Args) (src DirSource, err error) {
	nick, err := a.need("nickname")
	if err != nil {
		return src, err
	}
	src.Nickname = string(nick)
	if err = a.hex("identity", src.Identity[:]); err != nil {
		return src, err
	}
	host, err := a.need("host name")
	if err != nil {
		return src, err
	}
	src.Hostname = string(host)
	if src.Addr, err = a.addr4(); err != nil {
		return src, err
	}
	dir, err := a.uint("DirPort", 65535)
	if err != nil {
		return src, err
	}
	or, err := a.uint("ORPort", 65535)
	src.DirPort, src.ORPort = uint16(dir), uint16(or)
	return src, err
}

func parseDelays(a Args) (vote, dist time.Duration, err error) {
	v, err := a.uint("vote delay", 1<<31)
	if err != nil {
		return 0, 0, err
	}
	d, err := a.uint("distribution delay", 1<<31)
	return time.Duration(v) * time.Second, time.Duration(d) * time.Second, err
}

func parseSharedRandom(a Args) (*SharedRandom, error) {
	n, err := a.uint("number of reveals", 1<<16)
	if err != nil {
		return nil, err
	}
	r := &SharedRandom{Reveals: int(n)}
	return r, a.base64("value", r.Value[:])
}

// checkPreamble makes the checks that need all lines.
func (c *Consensus) checkPreamble(s *seen) error {
	err := s.require("consensus", "network-status-version", "vote-status", "consensus-method", "valid-after", "fresh-until", "valid-until", "voting-delay", "known-flags")
	if err != nil {
		return err
	}
	if !c.ValidAfter.Before(c.FreshUntil) || !c.FreshUntil.Before(c.ValidUntil) {
		return fault.New(fault.Directory, "valid-after, fresh-until and valid-until are not in order")
	}
	return nil
}
