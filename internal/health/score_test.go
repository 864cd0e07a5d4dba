package health

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ceiling = 5 * time.Second

func ms(n float64) *time.Duration {
	d := time.Duration(n * float64(time.Millisecond))
	return &d
}

func TestScore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		stats Stats
		want  float64
		known bool
	}{
		{"CF-H1 and CF-H3 no samples are no data", Stats{}, 0, false},
		{"CF-H2 no success and no latency", Stats{Samples: 4}, 0.2, true},
		{"CF-H4 all well at once", Stats{Samples: 5, Successes: 5, LatencyMean: ms(0)}, 1, true},
		{"CF-H5 nine of ten in 200 ms", Stats{Samples: 10, Successes: 9, LatencyMean: ms(200)}, 0.912, true},
		{"CF-H6 none of four in a second", Stats{Samples: 4, LatencyMean: ms(1000)}, 0.16, true},
		{"CF-H7 slower than the ceiling", Stats{Samples: 2, Successes: 2, LatencyMean: ms(50_000)}, 0.8, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, known := tt.stats.Score(ceiling)
			if known != tt.known || math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("score = %v, known %t; want %v, %t", got, known, tt.want, tt.known)
			}
		})
	}
}

func TestScoreStaysBetweenZeroAndOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.Int64Range(1, 1_000_000).Draw(t, "samples")
		s := Stats{Samples: samples, Successes: rapid.Int64Range(0, samples).Draw(t, "successes")}
		if rapid.Bool().Draw(t, "measured") {
			s.LatencyMean = ms(rapid.Float64Range(0, 1e7).Draw(t, "latency"))
		}
		score, known := s.Score(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "ceiling")))
		if !known || score < 0 || score > 1 {
			t.Fatalf("%+v scores %v, known %t", s, score, known)
		}
		if s.Successes < s.Samples {
			better := s
			better.Successes++
			if more, _ := better.Score(ceiling); more <= mustScore(s) {
				t.Fatalf("one success more makes %v into %v", mustScore(s), more)
			}
		}
	})
}

func mustScore(s Stats) float64 {
	score, _ := s.Score(ceiling)
	return score
}
