package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-llm/breakwater/bench/rig"
)

const (
	// lookLimit is how long an operator waits for a page.
	lookLimit = 10 * time.Second
	// looking is how often operators look at everything once.
	looking = 2 * time.Second
	// livePages is how many pages are live at once.
	livePages = 3
)

func (s *soak) admin(path string) string { return "http://" + s.gateway.AdminListen + path }

func (s *soak) scrape(ctx context.Context) (rig.Series, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return rig.Scrape(ctx, s.admin("/metrics"))
}

// operate looks at every page and at what the operator API has, until ctx ends.
func (s *soak) operate(ctx context.Context) {
	pages := []struct {
		url, shows string
		stored     bool // it needs the database, without which it may say so
	}{
		{s.admin("/"), "</html>", false},
		{s.admin("/healthz"), "", false},
		{s.admin("/readyz"), `"ready"`, false},
		{"http://" + s.gateway.Listen + "/v1/models", `"limited-alone"`, false},
		{s.admin("/api/v1/circuits"), `"alpha/m1/r1"`, false},
		{s.admin("/api/v1/health/providers"), `"alpha"`, false},
		{s.admin("/api/v1/config"), `"providers"`, false},
		{s.admin("/api/v1/circuits/troubled%2Fflaky%2Fr1"), `"policy_settings"`, false},
		{s.admin("/api/v1/runs?limit=20"), `"runs"`, true},
	}
	every(ctx, looking, func() {
		for _, page := range pages {
			status, body, err := get(ctx, page.url)
			switch {
			case err != nil:
			case page.stored && status == http.StatusServiceUnavailable:
			case status != http.StatusOK || !strings.Contains(body, page.shows):
				err = fmt.Errorf("%s: status %d: %.200q", page.url, status, body)
			}
			s.blameWatch(ctx, err)
		}
		s.blameWatch(ctx, s.lookAtRun(ctx))
	})
}

// lookAtRun opens the page of a run of late.
func (s *soak) lookAtRun(ctx context.Context) error {
	_, body, err := get(ctx, s.admin("/api/v1/runs?limit=1"))
	var list struct {
		Runs []struct {
			RunID string `json:"run_id"`
		}
	}
	if err != nil || json.Unmarshal([]byte(body), &list) != nil || len(list.Runs) == 0 {
		return err // none yet, or the database is away
	}
	status, body, err := get(ctx, s.admin("/runs/"+list.Runs[0].RunID))
	if err == nil && status != http.StatusServiceUnavailable && (status != http.StatusOK || !strings.Contains(body, list.Runs[0].RunID)) {
		err = fmt.Errorf("the page of run %s: status %d", list.Runs[0].RunID, status)
	}
	return err
}

// blameWatch counts a look, and breaks the promise when it failed for another
// reason than the end of the soak.
func (s *soak) blameWatch(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.looks.add(err == nil)
	if err != nil {
		s.broken(watched, "%v", err)
	}
}

func get(ctx context.Context, url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// watchLive keeps some pages live, each for a while, until ctx ends.
func (s *soak) watchLive(ctx context.Context) {
	var pages sync.WaitGroup
	for range livePages {
		pages.Go(func() {
			for ctx.Err() == nil {
				s.blameWatch(ctx, s.live(ctx))
			}
		})
	}
	pages.Wait()
}

// live opens a live page, which must be sent something, and leaves it in the
// middle.
func (s *soak) live(ctx context.Context) error {
	stay := 3*time.Second + rand.N(12*time.Second)
	staying, leave := context.WithTimeout(ctx, stay)
	defer leave()
	req, err := http.NewRequestWithContext(staying, http.MethodGet, s.admin("/live"), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	events := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: ") {
			events++
		}
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("a live page: status %d", resp.StatusCode)
	case events == 0:
		return fmt.Errorf("a live page was sent nothing in %s", stay)
	case staying.Err() == nil:
		return fmt.Errorf("a live page was ended by the gateway: %v", lines.Err())
	}
	return nil
}
