package provider

import (
	"net/http"
	"testing"
	"time"

	"github.com/breakwater-llm/breakwater/internal/wire"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	date := func(at time.Time) string { return at.Format(http.TimeFormat) }
	tests := map[string]struct {
		header map[string]string
		body   time.Duration
		want   time.Duration
	}{
		"none":                        {},
		"seconds":                     {header: map[string]string{"Retry-After": "7"}, want: 7 * time.Second},
		"a fraction":                  {header: map[string]string{"Retry-After": " 1.5 "}, want: 1500 * time.Millisecond},
		"milliseconds first (RAT-03)": {header: map[string]string{"Retry-After-Ms": "300", "Retry-After": "2"}, want: 300 * time.Millisecond},
		"negative milliseconds":       {header: map[string]string{"Retry-After-Ms": "-1", "Retry-After": "2"}, want: 2 * time.Second},
		"infinite milliseconds":       {header: map[string]string{"Retry-After-Ms": "Infinity", "Retry-After": "2"}, want: 2 * time.Second},
		"broken milliseconds":         {header: map[string]string{"Retry-After-Ms": "soon", "Retry-After": "2"}, want: 2 * time.Second},
		"a date":                      {header: map[string]string{"Retry-After": date(now.Add(20 * time.Second))}, want: 20 * time.Second},
		"a date by a clock that is off": {
			header: map[string]string{"Date": date(now.Add(-time.Hour)), "Retry-After": date(now.Add(-time.Hour + 5*time.Second))},
			want:   5 * time.Second,
		},
		"a date gone by":        {header: map[string]string{"Retry-After": date(now.Add(-time.Second))}},
		"negative":              {header: map[string]string{"Retry-After": "-5"}},
		"an hour":               {header: map[string]string{"Retry-After": "3600"}, want: time.Hour},
		"beyond all bounds":     {header: map[string]string{"Retry-After": "1e300"}, want: maxRetryAfter},
		"infinite":              {header: map[string]string{"Retry-After": "Infinity"}},
		"negative, with a body": {header: map[string]string{"Retry-After": "-5"}, body: 18 * time.Second, want: 18 * time.Second},
		"no number":             {header: map[string]string{"Retry-After": "NaN"}},
		"in the body":           {body: 18 * time.Second, want: 18 * time.Second},
		"header before body":    {header: map[string]string{"Retry-After": "3"}, body: 18 * time.Second, want: 3 * time.Second},
		"a body out of bounds":  {body: 1000 * time.Hour, want: maxRetryAfter},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			for k, v := range tt.header {
				header.Set(k, v)
			}
			if got := retryAfter(header, wire.Complaint{RetryAfter: tt.body}, now); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
