package pt

import (
	"context"
	"io"
	"slices"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

var errEOF = fault.New(fault.Local, "it ended")

// listen reads lines of the process until it ends or sends a line that is not
// allowed.
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
		if err != nil && (m.keyword == "LOG" || m.keyword == "STATUS") {
			// It tells people something, and carries connections all the same.
			p.cfg.Log.Warn("a message of a transport process cannot be read", "transports", p.cfg.Transports, "err", ptspec.Scrub(err.Error()))
			continue
		}
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
			if !proxied { // it would not use the proxy
				return fault.New(fault.Config, "it does not use the proxy of the configuration")
			}
		}
		if err := p.heard(&m); err != nil {
			return err
		}
	}
}

// heard handles one message.
func (p *Process) heard(m *message) error {
	side := "CMETHOD"
	if p.cfg.Server != nil {
		side = "SMETHOD"
	}
	log := p.cfg.Log
	switch m.keyword {
	case "VERSION-ERROR":
		return fault.New(fault.Config, "it does not speak version 1: %.200q", m.text)
	case "ENV-ERROR", "PROXY-ERROR":
		return fault.New(fault.Config, "%s: %.200q", m.keyword, ptspec.Scrub(m.text))
	case side:
		if !p.asked(m.name) {
			return fault.New(fault.Protocol, "%s for %.40q, which was not asked for", side, m.name)
		}
		p.chose(m)
		p.update(func() { p.methods[m.name] = m.method })
	case side + "-ERROR":
		if p.asked(m.name) {
			log.Warn("a transport process cannot offer a transport", "transport", m.name, "err", ptspec.Scrub(m.text))
			p.update(func() { p.failed[m.name] = fault.New(fault.Config, "%.200q", ptspec.Scrub(m.text)) })
		}
	case side + "S DONE":
		p.update(func() { p.ready = true })
	case "LOG":
		log.Log(context.Background(), m.level, "message of a transport process", "transports", p.cfg.Transports, "message", ptspec.Scrub(m.text))
	case "STATUS":
		log.Debug("status of a transport", "transport", m.fields["TRANSPORT"], "connect", m.fields["CONNECT"], "err", ptspec.Scrub(m.fields["ERRSTR"]))
	}
	return nil
}

func (p *Process) asked(name string) bool { return slices.Contains(p.cfg.Transports, name) }
