package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/chivenet/chive/program"
)

// Write writes the report into its directory: report.txt, report.json, report.csv,
// report.md, and figures.
func (r *Report) Write(dir string) error {
	if err := r.writeTexts(dir); err != nil {
		return err
	}
	pictures := filepath.Join(dir, "figures")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	return r.WriteFigures(pictures)
}

// writeTexts writes all but the figures.
func (r *Report) writeTexts(dir string) error {
	for name, write := range map[string]func(io.Writer) error{
		"report.txt": r.WriteText, "report.json": r.WriteJSON, "report.csv": r.WriteCSV, "report.md": r.WritePage,
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := program.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
