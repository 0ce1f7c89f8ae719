package fault

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

func TestKindSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("build circuit: %w", New(Timeout, "hop 2: %w", io.ErrUnexpectedEOF))
	if KindOf(err) != Timeout || !Is(err, Timeout) || Is(err, Network) {
		t.Fatalf("kind of %v is %v", err, KindOf(err))
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal("the cause is lost")
	}
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatal("a timeout must satisfy net.Error")
	}
}

func TestOutermostKindWins(t *testing.T) {
	if k := KindOf(Wrap(Directory, New(Network, "x"))); k != Directory {
		t.Fatalf("got %v", k)
	}
	if Wrap(Network, nil) != nil || KindOf(nil) != Unknown || KindOf(io.EOF) != Unknown || Is(nil, Unknown) {
		t.Fatal("nil and foreign errors have no kind")
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Unknown; k <= Local; k++ {
		if seen[k.String()] {
			t.Fatalf("name %q is used twice", k)
		}
		seen[k.String()] = true
	}
}

func TestKindsAreTargets(t *testing.T) {
	err := fmt.Errorf("fetch: %w", Wrap(Directory, New(Timeout, "no answer: %w", io.ErrUnexpectedEOF)))
	if !errors.Is(err, Directory) || !errors.Is(err, Timeout) || errors.Is(err, Network) {
		t.Fatalf("the kinds of %v", err)
	}
}
