package fte

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/chivenet/chive/internal/fault"
)

// Records of Chive's protocol (docs/spec/fte.md, "Records"):
//
//	AEAD(kind u8 || data length u16 || padding length u16) || AEAD(data || zeros)
//
// The second part is left out when there is neither data nor padding. Nonces are
// counters. After recordsPerKey records the key is replaced by one derived from it,
// and the old one is forgotten.
const (
	recordTag     = 16
	recordFixed   = 5
	recordHead    = recordFixed + recordTag
	maxRecordData = 1<<16 - 1
	maxRecord     = recordHead + maxRecordData + maxRecordPad + recordTag // bytes
	maxRecordPad  = 1 << 15
	recordsPerKey = 1 << 20
)

// recordKind is the kind of a record.
type recordKind byte

const (
	kindData   recordKind = iota // bytes of the stream
	kindCover                    // nothing; the first record of a client has this kind
	kindFinish                   // the end of the stream
	kinds
)

// recordKeys is one direction's AEAD state.
type recordKeys struct {
	chacha bool
	key    [32]byte
	a      cipher.AEAD
	n      uint64 // nonces used
	nonce  [12]byte
	fixed  [recordFixed]byte
}

func newRecordKeys(key [32]byte, flags byte) *recordKeys {
	k := &recordKeys{chacha: flags&flagChaCha != 0, key: key}
	k.init()
	return k
}

func (k *recordKeys) init() {
	var err error
	if k.chacha {
		k.a, err = chacha20poly1305.New(k.key[:])
	} else {
		var b cipher.Block
		if b, err = aes.NewCipher(k.key[:]); err == nil {
			k.a, err = cipher.NewGCM(b)
		}
	}
	if err != nil {
		panic(err) // the lengths are fixed
	}
	k.n = 0
}

// next returns the next nonce.
func (k *recordKeys) next() []byte {
	binary.BigEndian.PutUint64(k.nonce[4:], k.n)
	k.n++
	return k.nonce[:]
}

// turn replaces the key when it has sealed recordsPerKey records.
func (k *recordKeys) turn() {
	if k.n >= 2*recordsPerKey {
		copy(k.key[:], expand(k.key[:], "next key", 32))
		k.init()
	}
}

// seal builds a record around buf[off:off+n], which has recordHead bytes free
// before it and pad+recordTag after it, and returns it.
func (k *recordKeys) seal(buf []byte, off, n, pad int, kind recordKind) []byte {
	k.turn()
	k.fixed[0] = byte(kind)
	binary.BigEndian.PutUint16(k.fixed[1:], uint16(n))
	binary.BigEndian.PutUint16(k.fixed[3:], uint16(pad))
	start := off - recordHead
	k.a.Seal(buf[start:start:off], k.next(), k.fixed[:], nil)
	nonce := k.next()
	end := off
	if n+pad > 0 {
		clear(buf[off+n : off+n+pad])
		k.a.Seal(buf[off:off], nonce, buf[off:off+n+pad], nil)
		end = off + n + pad + recordTag
	}
	return buf[start:end]
}

// recordOpener opens records in received bytes.
type recordOpener struct {
	keys  *recordKeys
	begun bool
	kind  recordKind
	data  int
	size  int // of the record that has begun
}

// open opens the record at the start of buf, in place. It returns the record's data
// and length, or else need, the number of bytes that buf must hold before another
// call can do more.
func (o *recordOpener) open(buf []byte) (data []byte, used, need int, err error) {
	if !o.begun {
		if len(buf) < recordHead {
			return nil, 0, recordHead, nil
		}
		o.keys.turn()
		fixed, err := o.keys.a.Open(o.keys.fixed[:0], o.keys.next(), buf[:recordHead], nil)
		if err != nil {
			return nil, 0, 0, fault.New(fault.Protocol, "a record isn't authentic")
		}
		o.kind = recordKind(fixed[0])
		o.data = int(binary.BigEndian.Uint16(fixed[1:]))
		pad := int(binary.BigEndian.Uint16(fixed[3:]))
		if o.kind >= kinds || pad > maxRecordPad || o.kind != kindData && o.data != 0 {
			return nil, 0, 0, fault.New(fault.Protocol, "a record's header is malformed")
		}
		o.size = recordHead
		if o.data+pad > 0 {
			o.size += o.data + pad + recordTag
		}
		o.begun = true
	}
	if len(buf) < o.size {
		return nil, 0, o.size, nil
	}
	nonce := o.keys.next()
	if o.size > recordHead {
		body := buf[recordHead:o.size]
		if data, err = o.keys.a.Open(body[:0], nonce, body, nil); err != nil {
			return nil, 0, 0, fault.New(fault.Protocol, "a record's body isn't authentic")
		}
		data = data[:o.data]
	}
	o.begun = false
	if o.kind == kindFinish {
		return nil, o.size, 0, io.EOF
	}
	return data, o.size, 0, nil
}
