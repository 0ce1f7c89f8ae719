package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// file is one file of an archive.
type file struct {
	name string // in the archive, with slashes
	from string // on this machine
	mode fs.FileMode
}

// archive writes the .tar.gz of a program for a platform, or its .zip.
func (b *build) archive(t target, p program, name, bin string) error {
	files := []file{{name + "/" + p.binary(t), bin, 0o755}}
	for _, doc := range p.docs {
		files = append(files, file{name + "/" + filepath.Base(doc), filepath.Join(b.root, doc), 0o644})
	}
	for _, dir := range []string{"completions", "man"} {
		entries, err := os.ReadDir(filepath.Join(b.dir(p), dir)) // sorted
		if err != nil {
			return err
		}
		for _, e := range entries {
			files = append(files, file{name + "/" + dir + "/" + e.Name(), filepath.Join(b.dir(p), dir, e.Name()), 0o644})
		}
	}
	write, ext := writeTar, ".tar.gz"
	if t.os == "windows" {
		write, ext = writeZip, ".zip"
	}
	w, err := os.Create(filepath.Join(b.out, name+ext))
	if err != nil {
		return err
	}
	return errors.Join(write(w, files, b.date), w.Close())
}

// writeTar writes an archive that depends on the files and the date alone.
func writeTar(w io.Writer, files []file, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	a := tar.NewWriter(z)
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Format: tar.FormatUSTAR, Name: f.name, Mode: int64(f.mode), Size: int64(len(text)), ModTime: date}
		if err := a.WriteHeader(h); err != nil {
			return err
		}
		if _, err := a.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(a.Close(), z.Close())
}

// writeZip does the same for those who expect a .zip.
func writeZip(w io.Writer, files []file, date time.Time) error {
	a := zip.NewWriter(w)
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		entry, err := a.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return a.Close()
}
