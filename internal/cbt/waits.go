package cbt

import (
	"context"
	"time"
)

// Wait is what a circuit of an onion service waits for. C tor measures by the learned timeout how long such a circuit
// may take: this is the one table of its multiples.
type Wait uint8

const (
	// IntroEstablished: a service's circuit to an introduction point is built, and the point has answered. Its cells
	// take nine steps from relay to relay where those of a circuit of three hops take six.
	IntroEstablished Wait = iota
	// RendezvousReached: a service's circuit of four hops to a client's rendezvous point is built, in ten steps.
	RendezvousReached
	// Extended: a circuit that was there has got one hop more. It has been in time once, so C tor is patient.
	Extended
	// RendezvousEstablished: a client's rendezvous point has answered.
	RendezvousEstablished
	// IntroductionTaken: an introduction point has answered a client's introduction.
	IntroductionTaken
	// ServiceCame: the service has come to the rendezvous point, after it was introduced: it has a circuit to build.
	ServiceCame
)

// slack is what C tor adds to nearly all of these times.
const slack = time.Second

// Cutoff returns how long a wait may take. It changes with what is learned: who waits asks again.
func (e *Estimator) Cutoff(w Wait) time.Duration {
	switch w {
	case IntroEstablished:
		return times(e.usage, 9) + slack
	case RendezvousReached:
		return times(e.usage, 10) + slack
	case Extended:
		return times(e.closing, 4) + slack
	case IntroductionTaken:
		return times(e.usage, 14) + slack
	case ServiceCame:
		return times(e.usage, 18) + slack
	}
	return e.usage
}

// times returns the time for so many steps, from that for the six of three hops.
func times(d time.Duration, steps float64) time.Duration {
	return time.Duration(float64(d) * steps / 6)
}

// Builds reports whether the circuit is being built, or extended, during a wait.
func (w Wait) Builds() bool { return w <= Extended }

// Closing returns how long a circuit of three hops is built on to be measured.
func (e *Estimator) Closing() time.Duration { return e.closing }

// Measures reports whether circuits that are late are built on, so that the curve knows of them, too.
func (e *Estimator) Measures() bool { return !e.p.Disabled && e.history.n >= e.p.MinCircuits }

// Limiter returns a context that ends, with a cause, when a wait has taken too long. If the wait Builds, its time begins
// with the circuit, and until there is one the context ends after atMost.
type Limiter func(ctx context.Context, w Wait, atMost time.Duration, cause error) (context.Context, context.CancelFunc)
