package channel

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/cryptobyte"

	"github.com/chivenet/chive/internal/ident"
)

// helloForm describes a record with a ClientHello without what is new in each: random values, keys, and the name.
func helloForm(record []byte) (form []string, name string, err error) {
	s := cryptobyte.String(record)
	var handshake, hello, sessionID, suites, compressions, extensions cryptobyte.String
	var kind uint8
	var recordVersion, version uint16
	var random []byte
	if !s.ReadUint8(&kind) || !s.ReadUint16(&recordVersion) || !s.ReadUint16LengthPrefixed(&handshake) || !s.Empty() {
		return nil, "", fmt.Errorf("no whole record")
	}
	form = append(form, fmt.Sprintf("record %d %#x", kind, recordVersion))
	if !handshake.ReadUint8(&kind) || !handshake.ReadUint24LengthPrefixed(&hello) || !handshake.Empty() || kind != 1 {
		return nil, "", fmt.Errorf("no ClientHello that fills its record")
	}
	if !hello.ReadUint16(&version) || !hello.ReadBytes(&random, 32) || !hello.ReadUint8LengthPrefixed(&sessionID) ||
		!hello.ReadUint16LengthPrefixed(&suites) || !hello.ReadUint8LengthPrefixed(&compressions) ||
		!hello.ReadUint16LengthPrefixed(&extensions) || !hello.Empty() {
		return nil, "", fmt.Errorf("ClientHello is cut")
	}
	form = append(form, fmt.Sprintf("version %#x, session ID of %d, suites %x, compression %x", version, len(sessionID), []byte(suites), []byte(compressions)))
	for !extensions.Empty() {
		var id uint16
		var body cryptobyte.String
		if !extensions.ReadUint16(&id) || !extensions.ReadUint16LengthPrefixed(&body) {
			return nil, "", fmt.Errorf("extensions are cut")
		}
		text := hex.EncodeToString(body)
		switch id {
		case 0: // server_name: its length is in three lengths before it, and in no other thing
			if len(body) < 5 || int(body[4]) != len(body)-5 || int(body[1]) != len(body)-2 {
				return nil, "", fmt.Errorf("server_name %x", []byte(body))
			}
			name, text = string(body[5:]), "a name"
		case 51: // key_share
			var shares cryptobyte.String
			text = ""
			if !body.ReadUint16LengthPrefixed(&shares) || !body.Empty() {
				return nil, "", fmt.Errorf("key_share is cut")
			}
			for !shares.Empty() {
				var group uint16
				var key cryptobyte.String
				if !shares.ReadUint16(&group) || !shares.ReadUint16LengthPrefixed(&key) {
					return nil, "", fmt.Errorf("key_share is cut")
				}
				text += fmt.Sprintf("%#x %d bytes ", group, len(key))
			}
		}
		form = append(form, fmt.Sprintf("extension %d: %s", id, text))
	}
	return form, name, nil
}

// firstRecord returns the first record that Connect sends.
func firstRecord(t *testing.T, cfg *LinkConfig) []byte {
	t.Helper()
	dialled, accepted := net.Pipe()
	defer accepted.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := Connect(context.Background(), dialled, ident.RelayID{RSA: ident.RSAID{1}}, netip.MustParseAddrPort("192.0.2.1:9001"), cfg)
		ended <- err
	}()
	record := make([]byte, 5)
	if _, err := io.ReadFull(accepted, record); err != nil {
		t.Fatal(err)
	}
	record = append(record, make([]byte, int(record[3])<<8|int(record[4]))...)
	if _, err := io.ReadFull(accepted, record[5:]); err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	if err := <-ended; err == nil {
		t.Error("a link without a peer")
	}
	return record
}

// TestHello: nobody can tell a client's first packet from C tor's.
func TestHello(t *testing.T) {
	text, err := os.ReadFile("testdata/ctor-clienthello.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`^www\.[a-z2-7]{4,25}\.com$`)
	var want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		record, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		form, name, err := helloForm(record)
		if err != nil {
			t.Fatal(err)
		}
		if want != nil && !slices.Equal(form, want) || !names.MatchString(name) {
			t.Errorf("C tor's differ: %q, %q, name %s", form, want, name)
		}
		want = form
	}
	seen := map[string]bool{}
	for range 30 {
		record := firstRecord(t, &LinkConfig{})
		form, name, err := helloForm(record)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(form, want) {
			t.Fatalf("a client's:\n%s\nC tor's:\n%s", strings.Join(form, "\n"), strings.Join(want, "\n"))
		}
		if !names.MatchString(name) || seen[name] {
			t.Errorf("the name %s", name)
		}
		seen[name] = true
	}
	bridge, _, err := helloForm(firstRecord(t, &LinkConfig{Identity: keys(t), Bridge: true}))
	if err != nil || !slices.Equal(bridge, want) {
		t.Errorf("a bridge's differs: %v, %v", bridge, err)
	}
	if relay, _, err := helloForm(firstRecord(t, &LinkConfig{Identity: keys(t)})); err != nil || bytes.Equal([]byte(strings.Join(relay, "")), []byte(strings.Join(want, ""))) {
		t.Errorf("a relay's is a client's: %v", err)
	}
}
