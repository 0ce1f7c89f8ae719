package netdir

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestShared: a second loader takes what the first one has read, and both make the directory that one without others makes.
func TestShared(t *testing.T) {
	alone := ctor(t)
	var s Shared
	doc, texts := read(t, "ctor/consensus-microdesc"), read(t, "ctor/microdescs")
	first, second := Loader{Shared: &s}, Loader{Shared: &s}
	d, _, err := first.Consensus(doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	d2, parsed, err := second.Consensus(doc, nil)
	if err != nil || len(parsed.Signatures) != 3 {
		t.Fatal(err)
	}
	if &d.relays[0] != &d2.relays[0] {
		t.Error("one consensus was parsed twice")
	}
	adding := second.Add(d2)
	if n := adding.Take(nil); n != 0 {
		t.Errorf("%d microdescriptors of nobody", n)
	}
	var kept [][]byte
	d, n, err := first.Microdescs(d, texts, func(one []byte) { kept = append(kept, one) })
	if err != nil || n != 10 {
		t.Fatal(n, err)
	}
	if d2.mds[0] != nil {
		t.Error("a directory has changed")
	}
	taken := 0
	if n := adding.Take(func(one []byte) {
		for _, k := range kept {
			if &k[0] == &one[0] {
				taken++
			}
		}
	}); n != 10 || taken != 10 || adding.Missing() != 0 || adding.Added() != 10 {
		t.Errorf("%d of 10 taken, %d of them the same text, %d missing", n, taken, adding.Missing())
	}
	for _, d := range []*Directory{d, adding.Directory()} {
		if len(d.MissingMicrodescs()) != 0 || d.Usability() != alone.Usability() {
			t.Errorf("%+v; alone %+v", d.Usability(), alone.Usability())
		}
		for i := range d.Len() {
			if d.Relay(i).ID() != alone.Relay(i).ID() {
				t.Errorf("relay %d differs", i)
			}
		}
	}
}

// TestSharedHostile: a document that is none, or that no consensus names, is not kept.
func TestSharedHostile(t *testing.T) {
	var s Shared
	l := Loader{Shared: &s}
	if _, _, err := l.Consensus([]byte("network-status-version 3\n"), nil); err == nil {
		t.Error("no error")
	}
	d, _, err := l.Consensus(read(t, "ctor/consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, n, _ := l.Microdescs(d, read(t, "ctor15/microdescs"), nil); n != 0 || len(s.micro) != 0 {
		t.Errorf("%d microdescriptors of another network, %d kept", n, len(s.micro))
	}
	for i := range 3 * sharedConsensuses { // none pushes out more than its place
		doc := append(read(t, "ctor/consensus-microdesc"), "directory-signature sha256 "...)
		if _, _, err := l.Consensus(append(doc, byte('0'+i)), nil); err == nil {
			t.Error("a broken consensus was read")
		}
	}
	again, _, err := l.Consensus(read(t, "ctor/consensus-microdesc"), nil)
	if err != nil || &again.relays[0] != &d.relays[0] {
		t.Error("what was broken has pushed a consensus out", err)
	}
}

// TestSharedForgets: what neither the newest consensus nor the one before names goes.
func TestSharedForgets(t *testing.T) {
	var s Shared
	l := Loader{Shared: &s}
	d, _, err := l.Consensus(read(t, "ctor/consensus-microdesc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = l.Microdescs(d, read(t, "ctor/microdescs"), nil); err != nil {
		t.Fatal(err)
	}
	later := func(d *Directory, by time.Duration, relays []relay) *Directory {
		out := d.with(d.mds)
		out.pre.ValidAfter, out.relays = d.pre.ValidAfter.Add(by), relays
		return out
	}
	s.Verified(d)
	s.Verified(later(d, time.Hour, nil))
	if len(s.micro) != 10 {
		t.Errorf("%d microdescriptors of the consensus before", len(s.micro))
	}
	s.Verified(later(d, -time.Hour, nil)) // somebody is behind
	s.Verified(later(d, 2*time.Hour, d.relays[:1]))
	if len(s.micro) != 1 {
		t.Errorf("%d microdescriptors that one consensus names", len(s.micro))
	}
}

// TestSharedKeepsTheNewest: of many consensuses the last two are shared, however many came before.
func TestSharedKeepsTheNewest(t *testing.T) {
	var s Shared
	l := Loader{Shared: &s}
	doc := read(t, "ctor/consensus-microdesc")
	var last []*Directory
	for i := range 5 { // texts that differ in what nobody reads
		text := append(bytes.Clone(doc), bytes.Repeat([]byte("\n"), i)...)
		d, _, err := l.Consensus(text, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		again, _, err := l.Consensus(text, nil)
		if err != nil || &again.relays[0] != &d.relays[0] {
			t.Errorf("consensus %d was parsed twice", i)
		}
		if last = append(last, d); i == 0 {
			continue
		}
		before := append(bytes.Clone(doc), bytes.Repeat([]byte("\n"), i-1)...)
		if again, _, err = l.Consensus(before, nil); err != nil || &again.relays[0] != &last[i-1].relays[0] {
			t.Errorf("the one before consensus %d was forgotten", i)
		}
	}
}

// TestSharedDescriptors: a descriptor is found until its certificates expire or no consensus names it.
func TestSharedDescriptors(t *testing.T) {
	var s Shared
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := &netdoc.RouterDesc{Digest: [20]byte{1}, CertExpires: now.Add(time.Hour)}
	if s.Descriptor(d.Digest, now) != nil {
		t.Error("a descriptor of nobody")
	}
	s.VerifiedDescriptors(now, map[[20]byte]bool{d.Digest: true})
	s.KeepDescriptor(d)
	if s.Descriptor(d.Digest, now) != d || s.Descriptor(d.Digest, now.Add(time.Hour)) != nil {
		t.Error("it is not found, or after its end")
	}
	s.VerifiedDescriptors(now.Add(time.Minute), nil)
	if s.Descriptor(d.Digest, now) != d {
		t.Error("gone with the first consensus that does not name it")
	}
	s.VerifiedDescriptors(now.Add(2*time.Minute), nil)
	if s.Descriptor(d.Digest, now) != nil || len(s.desc) != 0 {
		t.Error("kept for ever")
	}
}

// TestSharedTurns: so many fetch at a time; another one waits for one of them, or for its context.
func TestSharedTurns(t *testing.T) {
	var s Shared
	var ends []func()
	for range sharedTurns {
		done, err := s.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Turn(ctx); !fault.Is(err, fault.Timeout) {
		t.Errorf("one too many: %v", err)
	}
	got := make(chan error)
	go func() {
		_, err := s.Turn(t.Context())
		got <- err
	}()
	ends[0]()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
