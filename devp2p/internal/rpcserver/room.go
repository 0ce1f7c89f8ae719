package rpcserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// What clients can hold, and for how long.
const (
	maxSmall  = 128 << 10        // bytes of a request that needs no place among the large ones
	maxLarge  = 8                // larger requests that are read, or wait for their calls, at the same time
	maxCalls  = 8                // requests whose calls are made at the same time
	maxQueue  = 32               // requests that wait for a place, of each kind
	queueTime = 10 * time.Second // for which a request waits for a place
	callTime  = time.Minute      // for the calls of a request
	writeTime = 10 * time.Second // for an answer
)

var errBusy = errors.New("the node is busy with other requests: try again")

// slots are places for requests, with a bounded queue.
type slots struct {
	free    chan struct{}
	waiting chan struct{}
}

func newSlots(n int) *slots {
	return &slots{make(chan struct{}, n), make(chan struct{}, maxQueue)}
}

// take waits for a place, which give gives back.
func (s *slots) take(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return errBusy
	}
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return errBusy
	}
}

func (s *slots) give() { <-s.free }

// read reads a request. Only large ones need a place, so that a client that sends a large
// one slowly is in nobody's way but theirs, for a short time.
func read(w http.ResponseWriter, r *http.Request, large *slots) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, MaxBody)
	head, err := io.ReadAll(io.LimitReader(body, maxSmall))
	if err != nil || len(head) < maxSmall {
		return head, err
	}
	if err := large.take(r.Context()); err != nil {
		return nil, err
	}
	defer large.give()
	rest, err := io.ReadAll(body)
	return append(head, rest...), err
}
