package main

import (
	"encoding/json"
	"log/slog"

	"github.com/chivenet/chive/chivelab/internal/labpage"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/lab"
)

// showPage serves the page of a network until stop; an empty address: none. ended has the error
// if it ends by itself.
func showPage(at string, nw *lab.Network, hosts *labpage.Hosts, log *slog.Logger) (url string, ended <-chan error, stop func(), err error) {
	if at == "" {
		return "", nil, func() {}, nil
	}
	cfg := labpage.New(nw, hosts).Config()
	cfg.Log = log
	failed := make(chan error, 1)
	url, stop, err = daemon.ServePage(at, cfg, func(err error) {
		select {
		case failed <- err:
		default: // an earlier failure ends the program
		}
	})
	if err != nil {
		return "", nil, nil, fault.New(fault.KindOf(err), "--page: %w", err)
	}
	return url, failed, stop, nil
}

// emulateLinks gives the nodes hosts behind emulated links, if on. stop ends them, after the nodes have ended.
func emulateLinks(on bool, page string, o *lab.Options) (hosts *labpage.Hosts, stop func(), err error) {
	switch {
	case !on:
		return nil, func() {}, nil
	case page == "":
		return nil, nil, fault.New(fault.Config, "--emulate-links: links take no time until the page changes them: give --page, too")
	}
	hosts = labpage.NewHosts()
	o.Host = hosts.Host
	return hosts, hosts.Close, nil
}

// upJSON is what "up --json" prints: the network, and the page's URL if there is one.
func upJSON(nw *lab.Network, url string) ([]byte, error) {
	b, err := json.Marshal(nw)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if url == "" {
		return b, nil
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	all["page"] = url
	b, err = json.Marshal(all)
	return b, fault.Wrap(fault.Local, err)
}
