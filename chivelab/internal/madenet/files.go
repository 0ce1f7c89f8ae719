package madenet

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

func sortSources(s []netdoc.DirSource) {
	slices.SortFunc(s, func(a, b netdoc.DirSource) int { return slices.Compare(a.Identity[:], b.Identity[:]) })
}

// Microdescs returns the microdescriptors of the last consensus, and their names, as requests have them.
func (n *Net) Microdescs() (texts []byte, names []string) {
	for m := range n.members(0) {
		texts = append(texts, m.micro...)
		names = append(names, base64.RawStdEncoding.EncodeToString(m.status.Microdesc[:]))
	}
	return texts, names
}

// WriteChive writes the data directory of a relay of Chive's that has fetched everything.
func (n *Net) WriteChive(dataDir string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	consensus, err := n.Consensus(netdoc.FlavorMicrodesc, 0)
	if err != nil {
		return err
	}
	micro, _ := n.Microdescs()
	if err := writeAll(dataDir, map[string][]byte{"consensus-microdesc": consensus, "certs": n.Certs(), "microdescs": micro}); err != nil {
		return err
	}
	var earlier dirserver.Memory
	if err := earlier.KeepIn(filepath.Join(dataDir, "earlier-consensuses"), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	for ago := n.opts.Hours; ago > 0; ago-- {
		text, err := n.Consensus(netdoc.FlavorMicrodesc, ago)
		if err != nil {
			return err
		}
		c, err := dirserver.NewConsensus(text)
		if err != nil {
			return err
		}
		earlier.SetConsensus(c)
		if err := earlier.Keep(c); err != nil {
			return err
		}
	}
	return nil
}

// WriteTor writes the data directory of a cache of C tor's that has fetched everything.
func (n *Net) WriteTor(dataDir string) error {
	if err := os.MkdirAll(filepath.Join(dataDir, "diff-cache"), 0o700); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	files := map[string][]byte{"cached-certs": n.Certs()}
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		text, err := n.Consensus(f, 0)
		if err != nil {
			return err
		}
		files[map[netdoc.Flavor]string{netdoc.FlavorNS: "cached-consensus", netdoc.FlavorMicrodesc: "cached-microdesc-consensus"}[f]] = text
	}
	var descs, micro []byte
	for m := range n.members(0) {
		descs = append(descs, m.desc.Text...)
		micro = append(fmt.Appendf(micro, "@last-listed %s\n", n.Lifetime(0).ValidAfter.Format("2006-01-02 15:04:05")), m.micro...)
	}
	files["cached-descriptors"], files["cached-microdescs"] = descs, micro
	if err := writeAll(dataDir, files); err != nil {
		return err
	}
	for ago := n.opts.Hours; ago > 0; ago-- {
		text, err := n.Consensus(netdoc.FlavorMicrodesc, ago)
		if err != nil {
			return err
		}
		b, err := n.kept(text, ago)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dataDir, "diff-cache", strconv.Itoa(1000+ago)), b, 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

// kept is the file in which C tor keeps an earlier consensus: labels, a zero, and the document, compressed.
func (n *Net) kept(text []byte, ago int) ([]byte, error) {
	signed, err := SHA3Signed(text)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	w := zlib.NewWriter(&body)
	if _, err := w.Write(text); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := w.Close(); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	var signers []string
	for i := range n.auths {
		signers = append(signers, n.auths[i].keys.Cert.Identity.String())
	}
	const at = "2006-01-02T15:04:05"
	l := n.Lifetime(ago)
	var out bytes.Buffer
	for _, label := range [][2]string{
		{"sha3-digest", hexSHA3(body.Bytes())}, {"compression", "deflate"}, {"document-type", "consensus"}, {"consensus-flavor", "microdesc"},
		{"sha3-digest-as-signed", signed}, {"sha3-digest-uncompressed", hexSHA3(text)}, {"consensus-signatories", strings.Join(signers, ",")},
		{"consensus-valid-after", l.ValidAfter.Format(at)}, {"consensus-fresh-until", l.FreshUntil.Format(at)}, {"consensus-valid-until", l.ValidUntil.Format(at)},
	} {
		fmt.Fprintf(&out, "%s %s\n", label[0], label[1])
	}
	out.WriteByte(0)
	out.Write(body.Bytes())
	return out.Bytes(), nil
}

func writeAll(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}
