package site

import (
	"io"
	"net/http"
	"path"
	"strings"
)

// types are the content types of files by the ends of their names. Package mime would read the
// tables of the machine, which differ from one to the next.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".xhtml": "application/xhtml+xml",
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".csv": "text/csv; charset=utf-8",
	".asc": "text/plain; charset=utf-8", ".sig": "application/pgp-signature",
	".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json", ".wasm": "application/wasm",
	".xml": "text/xml; charset=utf-8", ".rss": "application/rss+xml", ".atom": "application/atom+xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".avif": "image/avif", ".svg": "image/svg+xml", ".ico": "image/vnd.microsoft.icon", ".bmp": "image/bmp",
	".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf",
	".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".opus": "audio/ogg", ".oga": "audio/ogg", ".flac": "audio/flac", ".wav": "audio/wav", ".m4a": "audio/mp4",
	".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg",
	".pdf": "application/pdf", ".epub": "application/epub+zip",
	".zip": "application/zip", ".gz": "application/gzip", ".tgz": "application/gzip", ".xz": "application/x-xz", ".zst": "application/zstd",
	".bz2": "application/x-bzip2", ".tar": "application/x-tar", ".7z": "application/x-7z-compressed",
	".torrent": "application/x-bittorrent", ".bin": "application/octet-stream", ".iso": "application/octet-stream",
}

// typeOf returns the content type of a file: by its name, or else by its first bytes.
func typeOf(name string, file io.ReaderAt) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	var b [512]byte
	n, _ := file.ReadAt(b[:], 0) // who reads the rest will meet the error
	return http.DetectContentType(b[:n])
}
