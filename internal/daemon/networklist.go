package daemon

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// networkList says whose list of the public network a process uses.
type networkList struct {
	Tor  string `json:"tor"`  // the version of C tor that has the same list
	Date string `json:"date"` // the day on which its fallback directories were chosen
}

func (l networkList) String() string { return fmt.Sprintf("of tor %s, %s", l.Tor, l.Date) }

// ListOfNetwork says whose list of the public network is built in, for people.
func ListOfNetwork() string { return builtIn().String() }

func builtIn() networkList {
	o := netdir.PublicOrigin()
	return networkList{o.Tor, o.Date.Format(time.DateOnly)}
}

// list returns the list that is built in, if the process uses it: it does without a network
// file.
func (c *Common) list() *networkList {
	if c.NetworkFile != "" {
		return nil
	}
	l := builtIn()
	return &l
}

// warnOld warns if the process uses the list that is built in and that is old at now.
func (c *Common) warnOld(log *slog.Logger, now time.Time) {
	if l := c.list(); l != nil && netdir.PublicOrigin().Old(now) {
		log.Warn("the addresses of the public network in this program are more than a year old, so some no longer answer: install a newer version of chive", "of", l.Date, "tor", l.Tor)
	}
}
