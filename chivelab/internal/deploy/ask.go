package deploy

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Healthy returns an error if nothing answers for metrics at an address.
func Healthy(ctx context.Context, at netip.AddrPort) error {
	client := &http.Client{Timeout: maxAnswer}
	defer client.CloseIdleConnections()
	_, err := scrape(ctx, client, at)
	return err
}

// WriteResults writes files of a directory as an archive (tar). A file may grow meanwhile: of each, all lines that are
// whole at this moment are in it.
func WriteResults(w io.Writer, dir string, names []string) error {
	out := tar.NewWriter(w)
	for _, name := range names {
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return fault.New(fault.Config, "%q is no name of a file of results", name)
		}
		if err := addTo(out, dir, name); err != nil {
			return fault.New(fault.Local, "the results: %w", err)
		}
	}
	return fault.Wrap(fault.Local, out.Close())
}

func addTo(out *tar.Writer, dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size, err := wholeLines(f, info.Size())
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(f, 0, size))
	return err
}

// wholeLines returns how much of the first bytes of a file is whole lines.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	var part [4096]byte
	for size > 0 {
		begin := max(0, size-int64(len(part)))
		b := part[:size-begin]
		if _, err := f.ReadAt(b, begin); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		size = begin
	}
	return 0, nil
}
