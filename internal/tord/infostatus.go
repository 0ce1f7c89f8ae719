package tord

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/control"
	"github.com/chivenet/chive/internal/ctlwire"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netdoc"
)

// recommended answers status/version/recommended: the versions of C tor that the consensus recommends to clients.
func (q *query) recommended() (control.Answer, error) {
	d := q.directory()
	if d == nil {
		return text("?")
	}
	return text(d.ClientVersions())
}

// versionStatus answers status/version/current. The consensus lists versions of C tor, which say nothing of Chive's:
// to compare its numbers with them would have monitors warn of what is not so, or keep silent.
func (q *query) versionStatus() (control.Answer, error) {
	if d := q.directory(); d != nil && d.ClientVersions() == "" {
		return text("none recommended")
	}
	return text("unknown")
}

// limit answers limits/max-mem-in-queues.
func (q *query) limit() (control.Answer, error) {
	if q.node == nil && q.hosted != nil {
		return text(fmt.Sprint(q.relayStatus().MemoryBound))
	}
	c := q.inner()
	if c == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "The network is off: nothing is held")
	}
	_, bound := c.Memory()
	return text(fmt.Sprint(bound + q.relayStatus().MemoryBound))
}

// packages answers consensus/packages: what stands after the keyword of each such line.
func (q *query) packages() (control.Answer, error) {
	c := q.texts()
	if c == nil || q.directory() == nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "No consensus available")
	}
	lines, err := c.ConsensusText()
	if err != nil {
		return control.Answer{}, ctlwire.Errorf(ctlwire.Failed, "No consensus available")
	}
	return streamed(func(yield func(string) bool) {
		for l := range lines {
			if p, ok := strings.CutPrefix(l, "package "); ok && !yield(strings.TrimSuffix(p, "\n")) {
				return
			}
			if strings.HasPrefix(l, "r ") { // the preamble is over
				return
			}
		}
	})
}

// defaultPolicy answers exit-policy/default: what relays have that say nothing else. Each rule of it is for both
// families of addresses.
func defaultPolicy(*query) (control.Answer, error) {
	var rules []string
	for _, r := range exit.DefaultPolicy() {
		if r.Six {
			continue
		}
		verb, ports := "reject", strconv.Itoa(int(r.Ports.Lo))
		if r.Accept {
			verb = "accept"
		}
		switch {
		case r.Ports == netdoc.AllPorts:
			ports = "*"
		case r.Ports.Hi != r.Ports.Lo:
			ports += "-" + strconv.Itoa(int(r.Ports.Hi))
		}
		rules = append(rules, verb+" *:"+ports)
	}
	return text(strings.Join(rules, ","))
}

func (q *query) dormant() (control.Answer, error) {
	if q.node == nil && q.resting.Load() || q.node != nil && q.node.Inner().Idle() {
		return text("1")
	}
	return text("0")
}
