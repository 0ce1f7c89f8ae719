package pt

import (
	"context"
	"io"
	"regexp"
	"slices"

	"github.com/chivenet/chive/internal/fault"
)

var errEOF = fault.New(fault.Local, "it ended")

// listen reads what the process says, until it ends or says what it must not.
func (p *Process) listen(r io.Reader) error {
	br := lineReader(r)
	version, proxied := false, p.cfg.Proxy == nil
	for {
		line, err := readLine(br)
		if err == errLongLine {
			return err
		}
		if err != nil {
			return errEOF
		}
		m, err := parseMessage(line)
		if err != nil {
			return err
		}
		switch m.keyword {
		case "VERSION":
			if m.text != "1" {
				return fault.New(fault.Protocol, "it speaks version %.20q, not 1", m.text)
			}
			version = true
		case "PROXY DONE":
			proxied = true
		case "CMETHOD", "SMETHOD", "CMETHODS DONE", "SMETHODS DONE":
			if !version {
				return fault.New(fault.Protocol, "%s before VERSION", m.keyword)
			}
			if !proxied { // it would reach the network by another way
				return fault.New(fault.Config, "it doesn't use the proxy that it was told to use")
			}
		}
		if err := p.heard(&m); err != nil {
			return err
		}
	}
}

// heard acts on one message.
func (p *Process) heard(m *message) error {
	side := "CMETHOD"
	if p.cfg.Server != nil {
		side = "SMETHOD"
	}
	log := p.cfg.Log
	switch m.keyword {
	case "VERSION-ERROR":
		return fault.New(fault.Config, "it can't speak version 1: %.200q", m.text)
	case "ENV-ERROR", "PROXY-ERROR":
		return fault.New(fault.Config, "%s: %.200q", m.keyword, scrub(m.text))
	case side:
		if !p.asked(m.name) {
			return fault.New(fault.Protocol, "%s for %.40q, which nobody asked for", side, m.name)
		}
		p.update(func() { p.methods[m.name] = m.method })
	case side + "-ERROR":
		if p.asked(m.name) {
			log.Warn("a transport can't be offered", "transport", m.name, "error", scrub(m.text))
			p.update(func() { p.failed[m.name] = fault.New(fault.Config, "%.200q", scrub(m.text)) })
		}
	case side + "S DONE":
		p.update(func() { p.ready = true })
	case "LOG":
		log.Log(context.Background(), m.level, "a transport says", "transports", p.cfg.Transports, "message", scrub(m.text))
	case "STATUS":
		log.Debug("a transport's status", "transport", m.fields["TRANSPORT"], "connect", m.fields["CONNECT"], "error", scrub(m.fields["ERRSTR"]))
	}
	return nil
}

func (p *Process) asked(name string) bool { return slices.Contains(p.cfg.Transports, name) }

// addresses are what looks like an IP address, with or without a port.
var addresses = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|\[?[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}\]?(:\d+)?`)

// scrub takes addresses out of what a transport says, and bounds it.
func scrub(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return addresses.ReplaceAllString(s, "[scrubbed]")
}
