package provider

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// errEncoding says that a body cannot be decoded.
var errEncoding = errors.New("the body's encoding cannot be read")

// decoded returns the body as plain bytes. We ask for no encoding; some
// servers and the edges before them compress all the same.
func decoded(resp *http.Response) io.Reader {
	switch encoding := strings.ToLower(resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return resp.Body
	case "gzip", "x-gzip":
		return &gunzip{src: resp.Body}
	default:
		return &failing{fmt.Errorf("%w: %q", errEncoding, encoding)}
	}
}

// gunzip decodes while it reads: nothing is read before the first Read, which
// runs under a clock.
type gunzip struct {
	src io.Reader
	zip *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.zip == nil {
		zip, err := gzip.NewReader(g.src)
		if err != nil {
			return 0, encodingError(err)
		}
		g.zip = zip
	}
	n, err := g.zip.Read(p)
	return n, encodingError(err)
}

// encodingError marks an error that is the encoding's own, not its source's.
func encodingError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", errEncoding, err)
	}
	return err
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
