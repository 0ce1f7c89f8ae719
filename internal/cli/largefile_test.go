package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyFilesAreSmall: no command reads the whole of a large file, or of a device without an end, that somebody named as a key,
// and what it says names the file.
func TestKeyFilesAreSmall(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "authority_identity_key")
	if err := os.WriteFile(large, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"fte", "--client-port", "0", "--key-file", large},
		{"fte", "keygen", large},
		{"keys", "certify", "--passphrase-file", large, filepath.Join(dir, "keys")},
		{"keys", "certify", dir},
	} {
		_, err := runChive(t.Context(), args...)
		if err == nil || !strings.Contains(err.Error(), large+" has 1048576 bytes, more than") {
			t.Errorf("%s: %v", args, err)
		}
	}
	if err := os.WriteFile(large, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runChive(t.Context(), "keys", "certify", dir); err == nil || !strings.Contains(err.Error(), large+": RSA key: no PEM block") {
		t.Error(err)
	}
}
