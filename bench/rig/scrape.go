package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Series are metrics by name and labels, as Prometheus prints them.
type Series map[string]float64

// Scrape reads the metrics at a URL.
func Scrape(ctx context.Context, url string) (Series, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape: status %d: %.200s", resp.StatusCode, text)
	}
	return readSeries(string(text))
}

func readSeries(text string) (Series, error) {
	all := Series{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%q is no metric", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", line[:at], err)
		}
		all[line[:at]] = value
	}
	return all, nil
}

// Sum adds up those series of a family that have all the labels, each written
// as Prometheus prints it: name="value".
func (s Series) Sum(family string, labels ...string) float64 {
	sum := 0.0
	for series, value := range s {
		name, rest, _ := strings.Cut(series, "{")
		missing := slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) })
		if name == family && !missing {
			sum += value
		}
	}
	return sum
}
