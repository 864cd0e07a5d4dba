// Package web carries what browsers are sent beside the pages themselves: the
// style sheet, the icon, the scripts. Every file is served under a name that
// holds a hash of its content, so that it may be kept for ever and a new
// version is a new name. It knows nothing of what the pages show.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// Root is where the files are served.
const Root = "/static/"

// contentTypes names the kinds of files that are served. Whatever else lies
// beside them, such as the licences of vendored files, is not.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// hashLength is how many hex digits of a file's SHA-256 its name carries.
const hashLength = 16

// Files are the static files by name. It is an http.Handler for everything
// below Root.
type Files struct {
	urls   map[string]string // base name → URL
	served map[string]file   // URL → file
}

type file struct {
	contentType string
	content     []byte
}

// New returns the files that are part of the program.
func New() *Files {
	files, err := read(static)
	if err != nil {
		// The files are compiled in: only a program built wrong gets here, and
		// the first test finds out.
		panic(err)
	}
	return files
}

// read gathers every file of a known kind; base names must differ.
func read(tree fs.FS) (*Files, error) {
	files := &Files{urls: map[string]string{}, served: map[string]file{}}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		contentType, ok := contentTypes[path.Ext(name)]
		if !ok {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return files.add(path.Base(name), file{contentType: contentType, content: content})
	})
	if err != nil {
		return nil, fmt.Errorf("read the static files: %w", err)
	}
	return files, nil
}

func (f *Files) add(name string, added file) error {
	if _, taken := f.urls[name]; taken {
		return fmt.Errorf("two files are named %s", name)
	}
	sum := sha256.Sum256(added.content)
	ext := path.Ext(name)
	url := Root + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:])[:hashLength] + ext
	f.urls[name], f.served[url] = url, added
	return nil
}

// URL returns where the file of a base name is served, such as "admin.css". It
// panics when there is none: the names are constants of the caller.
func (f *Files) URL(name string) string {
	url, ok := f.urls[name]
	if !ok {
		panic("web: there is no static file " + name)
	}
	return url
}

// ServeHTTP sends one file, to be kept for a year, or 404 for a name without
// its present hash.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := f.served[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.contentType)
	header.Set("Content-Length", fmt.Sprint(len(file.content)))
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.Method == http.MethodHead {
		return
	}
	// A browser that went away while it was sent a file is no event.
	_, _ = w.Write(file.content)
}
