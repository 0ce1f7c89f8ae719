package chive

import (
	"fmt"
	"log/slog"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
)

// OnionClient is a client's public key: what an onion service must have so that the client may
// connect (rend-spec-v3, client authorization). Its text is that of C tor's files NAME.auth. OnionClients
// can be compared with ==.
type OnionClient struct{ key ident.X25519Key }

// ParseOnionClient reads "descriptor:x25519:" and the public key in base32.
func ParseOnionClient(text string) (OnionClient, error) {
	key, err := hsservice.ParseClient(text)
	return OnionClient{key}, err
}

// String returns what ParseOnionClient reads.
func (c OnionClient) String() string { return hsservice.FormatClient(c.key) }

// MarshalText returns the same as String.
func (c OnionClient) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (c *OnionClient) UnmarshalText(b []byte) error {
	read, err := ParseOnionClient(string(b))
	if err == nil {
		*c = read
	}
	return err
}

// LogValue returns "[scrubbed]": a log does not tell who is a service's client.
func (OnionClient) LogValue() slog.Value { return slog.StringValue(scrubbed) }

// OnionClientKey is the secret key by which an onion service knows a client, with the service's
// address. The zero OnionClientKey is no key. Its text is that of C tor's files
// NAME.auth_private. Like OnionKey, it shows its secret only in Text.
type OnionClientKey struct{ k *hsclient.Key }

// NewOnionClientKey makes a key for the service at an onion address. The service must get the
// Client of it, the client keeps the rest: see OnionListener.AuthorizeClients and Client.AddOnionClientKey.
func NewOnionClientKey(address string) (OnionClientKey, error) {
	k, err := hsclient.NewKey(address)
	if err != nil {
		return OnionClientKey{}, err
	}
	return OnionClientKey{k}, nil
}

// ParseOnionClientKey reads "ADDRESS:descriptor:x25519:KEY", with the address without ".onion"
// and the secret key in base32.
func ParseOnionClientKey(text string) (OnionClientKey, error) {
	k, err := hsclient.ParseKey(text)
	if err != nil {
		return OnionClientKey{}, err
	}
	return OnionClientKey{k}, nil
}

// IsZero reports whether there is no key.
func (k OnionClientKey) IsZero() bool { return k.k == nil }

// Address returns the address of the service, with ".onion"; empty: there is no key.
func (k OnionClientKey) Address() string {
	if k.IsZero() {
		return ""
	}
	return k.k.Address()
}

// Client returns the public key, for the service. There must be a key.
func (k OnionClientKey) Client() OnionClient { return OnionClient{k.k.Public()} }

// Text returns the secret, as ParseOnionClientKey reads it; empty: there is no key.
func (k OnionClientKey) Text() string {
	if k.IsZero() {
		return ""
	}
	return k.k.Text()
}

// UnmarshalText reads the text of a key.
func (k *OnionClientKey) UnmarshalText(b []byte) error {
	read, err := ParseOnionClientKey(string(b))
	if err == nil {
		*k = read
	}
	return err
}

// MarshalText returns an error: see OnionKey.
func (k OnionClientKey) MarshalText() ([]byte, error) { return nil, errSecretText }

// Format writes "[scrubbed]" for every verb.
func (OnionClientKey) Format(f fmt.State, _ rune) { writeScrubbed(f) }

// String returns "[scrubbed]".
func (OnionClientKey) String() string { return scrubbed }

// LogValue returns "[scrubbed]".
func (OnionClientKey) LogValue() slog.Value { return slog.StringValue(scrubbed) }

// AddOnionClientKey gives the client a key for an onion service that only authorized clients may
// read of, besides those of ClientOnionAuth, until RemoveOnionClientKey or Close. It takes the
// place of another one that was added for the same service. Streams from now on use it: they share
// no circuit with those that were opened before. It is an error (ErrConfig) if
// ClientOnionAuth has another key for the service. The client and its isolated children have the
// same keys.
func (c *Client) AddOnionClientKey(k OnionClientKey) error {
	if k.IsZero() {
		return fault.New(fault.Config, "onion service authorization: there is no key")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errReloadClosed
	}
	added := c.added.With(k.k)
	keys, err := c.configured.Join(added)
	if err != nil {
		return err
	}
	c.added = added
	c.inner.SetOnionKeys(keys)
	return nil
}

// RemoveOnionClientKey takes away a key that AddOnionClientKey has added for the service at an onion
// address. Streams from now on cannot reach the service, unless it lets everybody in; open
// ones go on. It is an error (ErrConfig) if no such key was added, also if ClientOnionAuth has one.
func (c *Client) RemoveOnionClientKey(address string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errReloadClosed
	}
	added, err := c.added.Without(address)
	if err != nil {
		return err
	}
	keys, err := c.configured.Join(added)
	if err != nil {
		return err
	}
	c.added = added
	c.inner.SetOnionKeys(keys)
	return nil
}
