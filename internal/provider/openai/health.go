package openai

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/breakwater-llm/breakwater/internal/llm"
	"github.com/breakwater-llm/breakwater/internal/provider"
)

// under returns the URL of a path, which may have a query, below a base URL.
func under(base *url.URL, path string) (*url.URL, error) {
	below, err := url.Parse(path)
	if err != nil || below.IsAbs() || below.Host != "" {
		return nil, errors.New("the path of the health check is none")
	}
	joined := base.JoinPath(below.EscapedPath())
	joined.RawQuery = below.RawQuery
	return joined, nil
}

// check asks whether the server answers. Whatever it says of a path that it may
// not even have, it is there; only what says that it cannot serve, or not us, is
// a failure, as it would be of a call.
func (c *Client) check(x *provider.Exchange, key int) (*llm.Result, error) {
	header := c.plain[key].Clone()
	header.Del("Content-Type")
	header.Set("Accept", "*/*")
	resp, err := x.Do(&http.Request{
		Method: http.MethodGet, URL: c.health, Host: c.health.Host,
		Header: header, Body: http.NoBody, GetBody: func() (io.ReadCloser, error) { return http.NoBody, nil },
	})
	switch {
	case err != nil:
		return nil, err
	case serves(resp.StatusCode):
		return x.Result(), drained(x)
	default:
		return refused(x)
	}
}

// serves reports whether a server that answers so can be called.
func serves(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return status >= http.StatusOK && status < http.StatusInternalServerError
	}
}

// drained reads what an answer says, though no further than it would a refusal:
// one that breaks off is none.
func drained(x *provider.Exchange) error {
	_, err := io.CopyN(io.Discard, x, maxRefusal)
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return x.Failure(err)
}
