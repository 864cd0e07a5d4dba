package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// gatewayPatience bounds one question to the gateway, which answers within
	// five seconds even while its database hangs.
	gatewayPatience = 15 * time.Second
	// maxGatewayAnswer bounds what is read of an answer.
	maxGatewayAnswer = 16 << 20
)

// gatewayClient asks a running gateway over its operator API.
type gatewayClient struct {
	base  string // without a slash at its end
	token string // may be empty
	http  *http.Client
}

// newGatewayClient returns a client for the gateway whose admin listener is at
// an address. Returns a usageError when that is no http or https URL.
func newGatewayClient(address, token string) (*gatewayClient, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		// What was written is not shown: it may be a token, or hold a password.
		return nil, usageError{errors.New("that is not the address of a gateway: write it as http://127.0.0.1:8081, in --url or BREAKWATER_URL")}
	}
	base := &url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: strings.TrimRight(parsed.Path, "/")}
	return &gatewayClient{base: base.String(), token: token, http: &http.Client{Timeout: gatewayPatience}}, nil
}

// circuits returns every circuit that the gateway knows, ordered by key.
func (c *gatewayClient) circuits(ctx context.Context) ([]circuit, error) {
	body, err := c.ask(ctx, http.MethodGet, "/api/v1/circuits", nil)
	if err != nil {
		return nil, c.explain(err)
	}
	var list struct{ Circuits []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil || list.Circuits == nil {
		return nil, c.strange()
	}
	all := make([]circuit, 0, len(list.Circuits))
	for _, raw := range list.Circuits {
		one, err := c.circuit(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// command changes one circuit and returns what it has become. A ttl of 0 is
// without end.
func (c *gatewayClient) command(ctx context.Context, key, action, reason string, ttl time.Duration) (circuit, error) {
	body, err := json.Marshal(struct {
		Reason string `json:"reason,omitempty"`
		TTL    int64  `json:"ttl_ms,omitempty"`
	}{reason, ttl.Milliseconds()})
	if err != nil {
		return circuit{}, fmt.Errorf("write the command: %w", err)
	}
	answer, err := c.ask(ctx, http.MethodPost, "/api/v1/circuits/"+url.PathEscape(key)+"/"+action, body)
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound && refused.code == "not_found" {
		if all, listErr := c.circuits(ctx); listErr == nil {
			return circuit{}, noSuchCircuit(key, all)
		}
	}
	if err != nil {
		return circuit{}, c.explain(err)
	}
	return c.circuit(answer)
}

func (c *gatewayClient) circuit(raw json.RawMessage) (circuit, error) {
	one := circuit{whole: raw}
	if err := json.Unmarshal(raw, &one); err != nil || one.Key == "" || one.State == "" {
		return circuit{}, c.strange()
	}
	return one, nil
}

// refusedError is an answer that is no success.
type refusedError struct {
	status        int
	code, message string // as the gateway wrote them; empty when it was none
}

func (e *refusedError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.message) }

// ask makes one request and returns the body of its answer. Returns a
// *refusedError when the answer is an error.
func (c *gatewayClient) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxGatewayAnswer))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusedBy(response.StatusCode, answer)
	}
	return answer, nil
}

func refusedBy(status int, answer []byte) error {
	var envelope struct {
		Error struct{ Code, Message string }
	}
	// What is no error of a gateway has no code and no message.
	_ = json.Unmarshal(answer, &envelope)
	return &refusedError{status: status, code: envelope.Error.Code, message: plain(envelope.Error.Message)}
}

// explain turns an error of ask into one that says what to do.
func (c *gatewayClient) explain(err error) error {
	var refused *refusedError
	if !errors.As(err, &refused) {
		return c.unreachable(err)
	}
	switch {
	case refused.code == "" || refused.code == "unknown_url" || refused.code == "method_not_allowed":
		return c.strange()
	case refused.status == http.StatusUnauthorized && c.token == "":
		return fmt.Errorf("the gateway at %s asks for a token: set BREAKWATER_TOKEN to an operator token, which breakwater tokens create prints", c.base)
	case refused.status == http.StatusUnauthorized:
		return fmt.Errorf("the gateway at %s does not accept the token in BREAKWATER_TOKEN: breakwater tokens list shows which are valid, breakwater tokens create makes one", c.base)
	case refused.status == http.StatusForbidden:
		return fmt.Errorf("the gateway at %s does not allow this: %s Set BREAKWATER_TOKEN to a token of role operator", c.base, ended(refused.message))
	default:
		return fmt.Errorf("the gateway at %s refuses: %s", c.base, cmp.Or(refused.message, fmt.Sprintf("status %d", refused.status)))
	}
}

func (c *gatewayClient) unreachable(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("the gateway at %s cannot be reached (%w): start it, or name another with --url or BREAKWATER_URL", c.base, err)
}

func (c *gatewayClient) strange() error {
	return fmt.Errorf("what answers at %s is not the operator API of a gateway that knows this command: name its server.admin_listen with --url or BREAKWATER_URL", c.base)
}

// ended gives a sentence its full stop.
func ended(sentence string) string {
	if sentence == "" || strings.HasSuffix(sentence, ".") {
		return sentence
	}
	return sentence + "."
}
