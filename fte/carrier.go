package fte

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
)

// Shape changes the lengths and times of records. The zero value changes nothing.
type Shape struct {
	// Multiple pads each record's data to a multiple of this many bytes; 0 adds
	// nothing.
	Multiple int
	// Random pads each record with a uniformly random number of bytes, at most this
	// many.
	Random int
	// MaxRecord is the most data in one record; 0 means as much as fits.
	MaxRecord int
	// Delay makes each record wait for a random time up to this long, at most ten
	// seconds. CloseWrite waits for its record too.
	Delay time.Duration
}

// maxDelay bounds Shape.Delay.
const maxDelay = 10 * time.Second

func (s Shape) check() error {
	switch {
	case s.Multiple < 0 || s.Multiple > maxRecordPad/2 || s.Random < 0 || s.Random > maxRecordPad/2:
		return fault.New(fault.Config, "padding is between 0 and %d bytes", maxRecordPad/2)
	case s.MaxRecord < 0 || s.MaxRecord > maxRecordData:
		return fault.New(fault.Config, "a record holds at most %d bytes", maxRecordData)
	case s.Delay < 0 || s.Delay > maxDelay:
		return fault.New(fault.Config, "a delay is between 0 and %v", maxDelay)
	}
	return nil
}

// most is the most padding that pad can return.
func (s *Shape) most() int { return s.Multiple + s.Random }

// pad draws the padding of a record with n bytes of data.
func (s *Shape) pad(rand io.Reader, n int) (int, error) {
	p := 0
	if s.Multiple > 0 {
		p = (s.Multiple - n%s.Multiple) % s.Multiple
	}
	if s.Random > 0 {
		var b [4]byte
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return 0, fault.New(fault.Local, "reading randomness for padding: %w", err)
		}
		p += int(binary.BigEndian.Uint32(b[:]) % uint32(s.Random+1))
	}
	return p, nil
}

// recordSealer builds records; a strictSealer or bulkSealer puts them into the format.
type recordSealer struct {
	keys  *recordKeys
	rand  io.Reader
	shape Shape
}

func (s *recordSealer) record(buf []byte, off, n int, kind recordKind) ([]byte, error) {
	pad, err := s.shape.pad(s.rand, n)
	if err != nil {
		return nil, err
	}
	return s.keys.seal(buf, off, n, pad, kind), nil
}

func (s *recordSealer) limit(most int) int {
	if s.shape.MaxRecord > 0 {
		most = min(most, s.shape.MaxRecord)
	}
	return most
}

// strictSealer sends every byte of a record as text of the language.
type strictSealer struct {
	recordSealer
	text textWriter
	mem  *account.Account
	out  *frame
}

// With this bound, the text of one record fits into one wireFrame in most formats.
const maxStrictData = 32 << 10

func (s *strictSealer) room() (head, tail, max int) {
	tail = recordTag + s.shape.most()
	fits := s.text.holds(largeFrame) - recordHead - tail
	return recordHead, tail, s.limit(min(fits, maxStrictData))
}

func (s *strictSealer) seal(buf []byte, off, n int) ([]byte, error) {
	return s.send(buf, off, n, kindData)
}

func (s *strictSealer) finish(buf []byte) ([]byte, error) {
	wire, err := s.send(buf, recordHead, 0, kindFinish)
	if err != nil {
		return nil, err
	}
	return s.text.finish(wire)
}

func (s *strictSealer) cover(buf []byte) ([]byte, error) {
	return s.send(buf, recordHead, 0, kindCover)
}

func (s *strictSealer) send(buf []byte, off, n int, kind recordKind) ([]byte, error) {
	rec, err := s.record(buf, off, n, kind)
	if err != nil {
		return nil, err
	}
	s.release()
	s.out = getFrame(s.mem, min(s.text.takes(len(rec)), largeFrame))
	return s.text.append(s.out.B[:0], rec[:recordHead], rec[recordHead:])
}

func (s *strictSealer) release() {
	s.out.put()
	s.out = nil
}

// strictOpener reads records out of text.
type strictOpener struct {
	rec  recordOpener
	text textReader
	mem  *account.Account
	bits *frame // the record that is being received
	busy bool   // the reader has begun a chunk of the record
	done bool   // the record's data was returned, so bits can be freed
	over bool   // the last record has come; what follows completes the text
}

func (o *strictOpener) open(buf []byte) (plain []byte, used, need int, err error) {
	o.rest()
	for {
		if o.over {
			// Its bytes must be read: a connection that is closed with unread bytes is
			// reset, and what was sent the other way is lost.
			n, done := o.text.finish(buf[used:])
			if used += n; !done {
				return nil, used, 1, nil
			}
			return nil, used, 0, io.EOF
		}
		if !o.busy {
			if o.bits == nil {
				o.bits = getFrame(o.mem, recordHead)
				o.text.begin(o.bits.B[:recordHead])
			} else {
				if len(o.bits.B) < o.rec.size {
					o.bits.put() // the head has been read
					o.bits = getFrame(o.mem, o.rec.size)
				}
				o.text.begin(o.bits.B[recordHead:o.rec.size])
			}
			o.busy = true
		}
		n, done, err := o.text.write(buf[used:])
		used += n
		if err != nil {
			return nil, used, 0, fault.New(fault.Protocol, "what was received isn't in the format: %w", err)
		}
		if !done {
			return nil, used, o.text.least(), nil
		}
		o.busy = false
		have := recordHead
		if o.rec.begun {
			have = o.rec.size
		}
		plain, n, _, err = o.rec.open(o.bits.B[:have])
		if o.over = err == io.EOF; o.over {
			continue
		}
		if err != nil {
			return nil, used, 0, err
		}
		if n > 0 {
			o.text.end()
			o.done = true
			return plain, used, 0, nil
		}
	}
}

func (o *strictOpener) eof(int) error {
	if o.over {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// rest frees the record that was returned last. A record that is still being received
// stays.
func (o *strictOpener) rest() {
	if o.done {
		o.bits.put()
		o.bits, o.done = nil, false
	}
}

// bulkSealer sends the first bytes of each record as a word and the rest as
// they are.
type bulkSealer struct {
	recordSealer
	word wordCoder
	x    []byte
}

func (s *bulkSealer) room() (head, tail, max int) {
	return recordHead + s.word.Len(), recordTag + s.shape.most() + s.word.Len(), s.limit(maxRecordData)
}

func (s *bulkSealer) seal(buf []byte, off, n int) ([]byte, error) {
	return s.send(buf, off, n, kindData)
}

func (s *bulkSealer) finish(buf []byte) ([]byte, error) {
	return s.send(buf, recordHead+s.word.Len(), 0, kindFinish)
}

func (s *bulkSealer) cover(buf []byte) ([]byte, error) {
	return s.send(buf, recordHead+s.word.Len(), 0, kindCover)
}

func (s *bulkSealer) send(buf []byte, off, n int, kind recordKind) ([]byte, error) {
	rec, err := s.record(buf, off, n, kind)
	if err != nil {
		return nil, err
	}
	start := off - recordHead
	m := copy(s.x, rec)
	if _, err := io.ReadFull(s.rand, s.x[m:]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a word's padding: %w", err)
	}
	at := start + m - s.word.Len()
	if err := s.word.Unrank(buf[at:start+m], s.x); err != nil {
		return nil, err
	}
	return buf[at : start+len(rec)], nil
}

func (s *bulkSealer) release() {}

// bulkOpener reads what a bulkSealer sends.
type bulkOpener struct {
	rec  recordOpener
	word wordCoder
	x    []byte
	read bool // x holds the word at the start of the buffer
}

func (o *bulkOpener) open(buf []byte) (plain []byte, used, need int, err error) {
	l, b := o.word.Len(), len(o.x)
	if len(buf) < l {
		return nil, 0, l, nil
	}
	if !o.read {
		if err := o.word.Rank(o.x, buf[:l]); err != nil {
			return nil, 0, 0, fault.New(fault.Protocol, "what was received isn't in the format: %w", err)
		}
		o.read = true
		// Copy the word's bytes over the end of its text, so that they stand directly
		// before the raw bytes.
		copy(buf[l-b:], o.x)
	}
	plain, n, need, err := o.rec.open(buf[l-b:])
	if err != nil {
		return nil, 0, 0, err
	}
	if n == 0 {
		return nil, 0, need + l - b, nil
	}
	o.read = false
	return plain, max(l, l-b+n), 0, nil
}

func (o *bulkOpener) eof(int) error { return io.ErrUnexpectedEOF }
func (o *bulkOpener) rest()         {}
