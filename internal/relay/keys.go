package relay

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// Lifetimes of keys, as C tor has them.
const (
	signingLife   = 30 * 24 * time.Hour
	signingRenew  = 7 * 24 * time.Hour // before its end
	rotationDays  = 28                 // onion-key-rotation-days
	graceDays     = 7                  // onion-key-grace-period-days
	linkRenewLeft = 24 * time.Hour     // of the two days that link keys live
	linkRenewAge  = 2 * time.Hour      // how old they become
	maxRotation   = 90 * 24 * time.Hour
)

// Keys are all keys of a relay. Its methods may be called from any goroutine.
type Keys struct {
	ID  ident.RelayID
	rsa *rsa.PrivateKey
	// tap is the onion key of the obsolete TAP handshake. Authorities require one
	// until the consensus says otherwise.
	tap *rsa.PrivateKey

	dir    keyDir
	newRSA func(bits int) (*rsa.PrivateKey, error)
	master *cert.ExpandedKey // nil: the master key is kept elsewhere
	log    *slog.Logger

	mu          sync.Mutex // guards what follows
	signing     *cert.ExpandedKey
	signingCert []byte
	signingEnd  time.Time
	warned      time.Time // when the last warning about its end was logged
	link        *channel.RelayKeys
	relink      bool                   // link was made with a signing key that was replaced
	onion, old  *handshake.NtorKeyPair // old: nil after its grace period
	rotated     time.Time              // when onion was made
	pairs       []*handshake.NtorKeyPair
	grace       time.Duration
}

// whatToDo is the advice for an operator who keeps the master key elsewhere.
const whatToDo = "where it is, run \"chive keys relay\", copy " + fileSigning + " and " + fileSigningCert + " into this relay's keys, and send it SIGHUP"

// warnEvery is the time between warnings about a certificate that expires soon;
// on its last day, every check warns.
const warnEvery = 24 * time.Hour

func generateRSA(bits int) (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, bits) }

// loadKeys reads the keys in dir and makes those that are missing, RSA keys by newRSA (Config.NewRSA). With
// offline, the Ed25519 master key is neither made nor read: it is kept elsewhere.
func loadKeys(dir keyDir, now time.Time, offline bool, newRSA func(bits int) (*rsa.PrivateKey, error), log *slog.Logger) (*Keys, error) {
	now = now.Round(0) // see Renew
	err := dir.make()
	if err != nil {
		return nil, err
	}
	if open := atomicfile.Exposed(string(dir), fileRSA, fileMaster, fileSigning, fileTAP, fileOnion, fileOnionOld); open != nil {
		log.Warn("others on this machine can get at the relay's keys: they are for its user alone (chmod go-rwx)", "paths", open)
	}
	if newRSA == nil {
		newRSA = generateRSA
	}
	k := &Keys{dir: dir, log: log, grace: maxRotation, newRSA: newRSA}
	if offline {
		if err := dir.checkOffline(log); err != nil {
			return nil, err
		}
	}
	if k.rsa, err = dir.rsaKey(fileRSA, newRSA); err != nil {
		return nil, err
	}
	if k.tap, err = dir.rsaKey(fileTAP, newRSA); err != nil {
		return nil, err
	}
	if k.ID.Ed, k.master, err = dir.master(); err != nil {
		return nil, err
	}
	if offline {
		k.master = nil
	}
	k.ID.RSA, _ = cert.RSAKeyID(&k.rsa.PublicKey)
	if err := k.loadSigning(now); err != nil {
		return nil, err
	}
	if err := k.loadOnion(now); err != nil {
		return nil, err
	}
	// The consensus, which comes later, decides how old an onion key may be.
	_, err = k.Renew(now, maxRotation, maxRotation)
	return k, err
}

// Reread takes over a signing key and a certificate that the operator has put
// into the directory: this renews them if the master key is kept elsewhere.
func (k *Keys) Reread(now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.signingCert
	if err := k.loadSigning(now); err != nil {
		return err
	}
	k.relink = k.relink || !bytes.Equal(old, k.signingCert)
	return nil
}

func (k *Keys) loadSigning(now time.Time) error {
	c, err := k.dir.readTagged(fileSigningCert, tagSigningCert)
	if err != nil {
		return err
	}
	b, err := k.dir.readTagged(fileSigning, tagSigning, cert.ExpandedLen)
	if err != nil {
		return err
	}
	if c == nil || b == nil {
		return nil
	}
	key, err := cert.NewExpanded(b)
	if err != nil {
		return err
	}
	parsed, err := cert.ParseEd25519(c)
	if err == nil {
		err = parsed.Verify(cert.IdentityVSigning, k.ID.Ed, now)
	}
	if err == nil && (!parsed.HasSigner || parsed.Key != key.Public()) {
		err = fault.New(fault.Config, "it is for another key, or lacks the identity")
	}
	if err != nil {
		if k.master != nil {
			k.log.Info("the signing key's certificate is not usable: a new one is made", "err", err)
			return nil
		}
		return fault.New(fault.Config, "keys: %s: %w; the master key is not here: %s", fileSigningCert, err, whatToDo)
	}
	k.signing, k.signingCert, k.signingEnd = key, c, parsed.Expires
	return nil
}

func (k *Keys) loadOnion(now time.Time) (err error) {
	if k.onion, err = k.dir.onion(fileOnion); err != nil || k.onion == nil {
		return err
	}
	st, err := os.Stat(k.dir.path(fileOnion))
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	k.rotated = st.ModTime()
	if k.rotated.After(now) {
		k.rotated = now
	}
	k.old, err = k.dir.onion(fileOnionOld)
	return err
}

// Renew replaces keys: the onion key after rotation, and the signing and link
// keys before their certificates expire. It drops the previous onion key when
// grace has passed after the rotation. It reports whether a new descriptor is
// necessary.
func (k *Keys) Renew(now time.Time, rotation, grace time.Duration) (changed bool, err error) {
	// Certificates expire by the wall clock. The monotonic clock stops while the
	// machine is suspended, so it must not decide.
	now = now.Round(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.grace = grace
	signing, err := k.renewSigningLocked(now)
	if err != nil {
		return false, err
	}
	onion, err := k.renewOnionLocked(now, rotation)
	if err != nil {
		return false, err
	}
	if k.link == nil || k.relink || signing || !k.link.Last(now, linkRenewLeft) || k.link.Age(now) >= linkRenewAge {
		id := channel.RelayIdentity{RSA: k.rsa, Signing: k.signing, SigningCert: k.signingCert, NewRSA: k.newRSA}
		if k.link, err = id.NewRelayKeys(rand.Reader, now); err != nil {
			return false, err
		}
		k.relink = false
	}
	return signing || onion, nil
}

func (k *Keys) renewSigningLocked(now time.Time) (bool, error) {
	left := k.signingEnd.Sub(now)
	if k.signing != nil && left > signingRenew {
		return false, nil
	}
	if k.master == nil {
		if k.signing == nil || left <= 0 {
			return false, fault.New(fault.Config, "keys: there is neither the master key nor a signing key with a valid certificate: %s", whatToDo)
		}
		if now.Sub(k.warned) >= warnEvery || left < warnEvery {
			k.warned = now
			k.log.Warn("the signing key's certificate ends soon, and the master key is not here to make another: "+whatToDo,
				"ends", k.signingEnd.UTC().Format(time.DateTime), "left", left.Round(time.Hour))
		}
		return false, nil
	}
	key, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return false, err
	}
	end := now.Add(signingLife)
	id := channel.NewRelayIdentity(k.rsa, k.master, key, end)
	// The certificate last: a key without one is replaced at the next start.
	if err := k.dir.writeTagged(fileSigning, tagSigning, key.Bytes()); err != nil {
		return false, err
	}
	if err := k.dir.writeTagged(fileSigningCert, tagSigningCert, id.SigningCert); err != nil {
		return false, err
	}
	k.signing, k.signingCert, k.signingEnd = key, id.SigningCert, end
	return true, nil
}

func (k *Keys) renewOnionLocked(now time.Time, rotation time.Duration) (bool, error) {
	if k.rotated.After(now) { // the clock was ahead
		k.rotated = now
	}
	if k.old != nil && now.Sub(k.rotated) > k.grace {
		k.old = nil
		if err := os.Remove(k.dir.path(fileOnionOld)); err != nil && !os.IsNotExist(err) {
			return false, fault.New(fault.Local, "keys: %w", err)
		}
	}
	changed := k.onion == nil || now.Sub(k.rotated) >= rotation
	if changed {
		next, err := handshake.GenerateNtorKeyPair(rand.Reader)
		if err != nil {
			return false, err
		}
		// The old one first: after a crash in between, both files have the same
		// key.
		if k.onion != nil {
			if err := k.dir.writeOnion(fileOnionOld, k.onion); err != nil {
				return false, err
			}
		}
		if err := k.dir.writeOnion(fileOnion, next); err != nil {
			return false, err
		}
		k.old, k.onion, k.rotated = k.onion, next, now
	}
	k.pairs = []*handshake.NtorKeyPair{k.onion}
	if k.old != nil {
		k.pairs = append(k.pairs, k.old)
	}
	return changed, nil
}

// Onion returns the accepted onion keys, the current one first. The caller must
// not change the slice.
func (k *Keys) Onion() []*handshake.NtorKeyPair {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pairs
}

// Link returns the keys of link handshakes.
func (k *Keys) Link() *channel.RelayKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.link
}

// Desc returns the keys that sign the relay's documents.
func (k *Keys) Desc() *netdoc.DescKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &netdoc.DescKeys{Identity: k.rsa, Ed: k.ID.Ed, Signing: k.signing, SigningCert: k.signingCert, NtorSecret: k.onion.Secret(), Onion: k.tap}
}

// ages reports whether the master key is among the relay's keys, when the signing
// key's certificate expires, and since when the onion key is in use.
func (k *Keys) ages() (master bool, signingEnds, onionSince time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.master != nil, k.signingEnd, k.rotated
}
