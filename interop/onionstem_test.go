package interop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/lab/ctor"
)

// stemOnionScript reads a service's descriptor with validation on, and decrypts both layers.
// The last argument is a client's key, as in an .auth_private file, if the service has clients.
const stemOnionScript = `
import base64, hashlib, sys
import stem.descriptor
from stem.descriptor.hidden_service import HiddenServiceDescriptorV3 as V3, OuterLayer, InnerLayer
from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
path, address, points = sys.argv[1:4]
desc, = stem.descriptor.parse_file(path, descriptor_type="hidden-service-descriptor-3 1.0", validate=True)
if len(sys.argv) == 4:
    inner = desc.decrypt(address)
else:
    secret = X25519PrivateKey.from_private_bytes(base64.b32decode(sys.argv[4].split(":")[3] + "===="))
    blinded = desc.signing_cert.signing_key()
    subcredential = V3._subcredential(V3.identity_key_from_address(address), blinded)
    outer = OuterLayer._decrypt(desc.superencrypted, desc.revision_counter, subcredential, blinded)
    shared = secret.exchange(X25519PublicKey.from_public_bytes(base64.b64decode(outer.ephemeral_key)))
    keys = hashlib.shake_256(subcredential + shared).digest(40)
    entry = {base64.b64decode(k + "=="): c for k, c in outer.clients.items()}[keys[:8]]
    aes = Cipher(algorithms.AES(keys[8:]), modes.CTR(base64.b64decode(entry.iv + "==")), default_backend()).decryptor()
    cookie = aes.update(base64.b64decode(entry.cookie + "==")) + aes.finalize()
    inner = InnerLayer._decrypt(outer, desc.revision_counter, subcredential, blinded + cookie)
assert desc.lifetime == 180, desc.lifetime
assert 2 in inner.formats, inner.formats
assert not inner.is_single_service
assert len(inner.introduction_points) == int(points), len(inner.introduction_points)
for p in inner.introduction_points:
    assert len(p.link_specifiers) >= 3, p.link_specifiers
    assert p.onion_key() and p.auth_key() and p.enc_key()
print(desc.revision_counter)
`

// stemReads has a C tor client fetch a descriptor from the service's directories, and stem
// read it. private is the key of an authorized client; empty: the service has none.
func stemReads(t *testing.T, from *ctor.Node, address, private string) {
	t.Helper()
	python := stemPython(t)
	ctx := bounded(t, patience)
	control, err := from.Control(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	events, err := control.Events(ctx, "HS_DESC_CONTENT")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Command(ctx, "HSFETCH "+strings.TrimSuffix(address, ".onion")); err != nil {
		t.Fatal(err)
	}
	var text string
	for !strings.HasPrefix(text, "hs-descriptor 3\n") { // what a directory without it sends is empty
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the control connection ended")
			}
			_, text, _ = strings.Cut(e.Rest, "\n")
		case <-ctx.Done():
			t.Fatal("no directory has the descriptor")
		}
	}
	file := filepath.Join(t.TempDir(), "descriptor")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-c", stemOnionScript, file, address, strconv.Itoa(3)}
	if private != "" {
		args = append(args, strings.TrimSpace(private))
	}
	out, err := exec.Command(python, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("stem: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	t.Logf("stem has read the descriptor with revision %s, of %d bytes", strings.TrimSpace(string(out)), len(text))
}
