//go:build !unix

package tord

import "github.com/chivenet/chive/internal/fault"

const canDaemonize = false

func (*Program) parent(*source) (*parent, error) { return nil, nil }

func (*Program) background(l *logs, _ *source) int {
	return l.fail(fault.New(fault.Config, "%s 1 is refused: on this system, a program does not go to the background", asDaemon))
}

func (*parent) release(string, *lines) error { return nil }
