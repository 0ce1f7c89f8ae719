package chive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newOnionKey(t *testing.T) OnionKey {
	t.Helper()
	k, err := NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newClientKey makes a client's key for some service.
func newClientKey(t *testing.T) OnionClientKey {
	t.Helper()
	k, err := NewOnionClientKey(newOnionKey(t).Address())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOnionKeyForms: a key survives its two forms, and its file is the one of a service's directory.
func TestOnionKeyForms(t *testing.T) {
	k := newOnionKey(t)
	if k.IsZero() || !strings.HasSuffix(k.Address(), ".onion") || !strings.HasPrefix(k.Text(), "ED25519-V3:") {
		t.Fatalf("address %q", k.Address())
	}
	for _, text := range []string{k.Text(), " " + strings.TrimRight(k.Text(), "=") + "\n"} {
		var again OnionKey
		if err := again.UnmarshalText([]byte(text)); err != nil || again.Text() != k.Text() || !again.Equal(k) {
			t.Errorf("%q: %v", text, err)
		}
	}
	file, err := k.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var again OnionKey
	if err := again.UnmarshalBinary(file); err != nil || again.Text() != k.Text() {
		t.Error("its file:", err)
	}
	dir := filepath.Join(t.TempDir(), "shop")
	c := openClient(t)
	l, err := c.Listen(t.Context(), OnionConfig{KeyDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	onDisk, err := fs.ReadFile(os.DirFS(dir), "hs_ed25519_secret_key")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.UnmarshalBinary(onDisk); err != nil || !again.Equal(l.Key()) || again.Equal(k) || again.Address() != l.Address() {
		t.Error("the file of a directory:", err)
	}
}

// TestOnionKeyRefuses: what is no key leaves the one that was there, and no error repeats it.
func TestOnionKeyRefuses(t *testing.T) {
	k := newOnionKey(t)
	body := strings.TrimPrefix(k.Text(), "ED25519-V3:")
	for _, text := range []string{"", "ED25519-V3:", "NEW:ED25519-V3", "RSA1024:" + body, body, k.Text()[:60], k.Text() + "AAAA", "ED25519-V3:" + base64.StdEncoding.EncodeToString([]byte(body))} {
		got := k
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, ErrConfig) || got != k || len(text) > 20 && strings.Contains(err.Error(), text[12:20]) {
			t.Errorf("%q: %v", text, err)
		}
		if err := got.UnmarshalBinary([]byte(text)); !errors.Is(err, ErrConfig) || got != k {
			t.Errorf("%q as a file: %v", text, err)
		}
	}
	var none OnionKey
	if _, err := none.MarshalBinary(); !errors.Is(err, ErrConfig) || none.Text() != "" || none.Address() != "" || !none.IsZero() || none.Equal(k) {
		t.Error("no key:", err)
	}
}

// TestSecretsStaySecret: only who asks for a secret sees it.
func TestSecretsStaySecret(t *testing.T) {
	onion, client := newOnionKey(t), newClientKey(t)
	for name, x := range map[string]struct {
		key    any
		secret string
		raw    []byte
		hidden any // the key in a field that fmt cannot ask
	}{
		"OnionKey":       {onion, strings.TrimPrefix(onion.Text(), "ED25519-V3:"), onion.k.Bytes(), struct{ k OnionKey }{onion}},
		"OnionClientKey": {client, client.Text()[len(client.Text())-52:], nil, struct{ k OnionClientKey }{client}},
	} {
		type config struct{ Key any }
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
			args := []any{x.key}
			if got := fmt.Sprintf(strings.TrimPrefix(verb, "%T "), x.key); got != "[scrubbed]" {
				t.Errorf("%s with %s: %s", name, verb, got)
			}
			if strings.HasPrefix(verb, "%T") {
				args = []any{x.key, config{x.key}}
			}
			fmt.Fprintf(&out, verb+"\n", args...)
			fmt.Fprintf(&out, strings.TrimPrefix(verb, "%T ")+"\n", x.hidden)
			fmt.Fprintf(&out, strings.TrimPrefix(verb, "%T ")+"\n", &x.hidden)
		}
		fmt.Fprintln(&out, x.key, []any{x.key}, map[any]any{1: x.key})
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("key", "key", x.key, "in", config{x.key}, "hidden", x.hidden)
		}
		b, err := json.Marshal(config{x.key})
		if err == nil {
			t.Errorf("%s: JSON has %s, and the key is lost", name, b)
		}
		out.Write(b)
		text := strings.ToLower(out.String())
		if !strings.Contains(text, "[scrubbed]") {
			t.Errorf("%s: %s", name, text)
		}
		secrets := []string{x.secret}
		if x.raw != nil {
			secrets = append(secrets, fmt.Sprintf("%x", x.raw), fmt.Sprint(x.raw), fmt.Sprintf("%#v", x.raw))
		}
		for _, s := range secrets {
			if strings.Contains(text, strings.ToLower(s)) {
				t.Errorf("%s: its secret is in %s", name, text)
			}
		}
	}
}

// TestKeysFromJSON: a program's own configuration may have keys.
func TestKeysFromJSON(t *testing.T) {
	onion, client := newOnionKey(t), newClientKey(t)
	text, err := json.Marshal(map[string]any{"Onion": onion.Text(), "Mine": client.Text(), "Client": client.Client()})
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Onion  OnionKey
		Mine   OnionClientKey
		Client OnionClient
	}
	if err := json.Unmarshal(text, &read); err != nil || !read.Onion.Equal(onion) || read.Mine.Text() != client.Text() || read.Client != client.Client() {
		t.Errorf("%v: %v", read, err)
	}
}
