package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// simulator is the switch of a simulated provider.
type simulator struct {
	url  string
	well map[string]any // how it behaves when nothing is wrong
}

// remember takes how the provider behaves now for well.
func (s *simulator) remember(ctx context.Context) error {
	answer, err := exchange(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, &s.well)
}

// behave makes the provider well but for what is wrong.
func (s *simulator) behave(ctx context.Context, wrong map[string]any) error {
	state := maps.Clone(s.well)
	maps.Copy(state, wrong)
	body, err := json.Marshal(state)
	if err != nil {
		return err
	}
	_, err = exchange(ctx, http.MethodPut, s.url, body)
	return err
}

// exchange asks the operator API. Returns an error for any answer but 200.
func exchange(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %.300s", method, url, resp.StatusCode, answer)
	}
	return answer, err
}
