package budget_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/budget"
)

// TestPeriods is BUD-03, and other days that are not 24 hours long.
func TestPeriods(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ zone, at, day, dayEnds, monthEnds string }{
		"the eve of a short day":         {"Europe/Amsterdam", "2026-03-28T22:59:00Z", "2026-03-28", "2026-03-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		"a day of 23 hours":              {"Europe/Amsterdam", "2026-03-28T23:01:00Z", "2026-03-29", "2026-03-29T22:00:00Z", "2026-03-31T22:00:00Z"},
		"its last minute":                {"Europe/Amsterdam", "2026-03-29T21:59:00Z", "2026-03-29", "2026-03-29T22:00:00Z", "2026-03-31T22:00:00Z"},
		"the day after":                  {"Europe/Amsterdam", "2026-03-29T22:01:00Z", "2026-03-30", "2026-03-30T22:00:00Z", "2026-03-31T22:00:00Z"},
		"a day of 25 hours":              {"Europe/Amsterdam", "2026-10-24T22:00:00Z", "2026-10-25", "2026-10-25T23:00:00Z", "2026-10-31T23:00:00Z"},
		"the end of a month":             {"UTC", "2026-11-30T23:59:59Z", "2026-11-30", "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		"the end of a year":              {"UTC", "2026-12-31T12:00:00Z", "2026-12-31", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"a leap day":                     {"UTC", "2028-02-28T12:00:00Z", "2028-02-28", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		"a zone of half an hour":         {"Asia/Kolkata", "2026-11-30T18:29:59Z", "2026-11-30", "2026-11-30T18:30:00Z", "2026-11-30T18:30:00Z"},
		"a zone of three quarters":       {"Asia/Kathmandu", "2026-11-30T18:15:00Z", "2026-12-01", "2026-12-01T18:15:00Z", "2026-12-31T18:15:00Z"},
		"no midnight: it is put forward": {"America/Santiago", "2026-09-05T12:00:00Z", "2026-09-05", "2026-09-06T04:00:00Z", "2026-10-01T03:00:00Z"},
		"two midnights: it is put back":  {"America/Havana", "2026-10-31T12:00:00Z", "2026-10-31", "2026-11-01T04:00:00Z", "2026-11-01T04:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(row.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, row.at)
			if err != nil {
				t.Fatal(err)
			}
			p := budget.PeriodAt(at, zone)
			got := []string{p.Day, p.Month, p.DayEnds.UTC().Format(time.RFC3339), p.MonthEnds.UTC().Format(time.RFC3339)}
			if diff := cmp.Diff([]string{row.day, row.day[:7], row.dayEnds, row.monthEnds}, got); diff != "" {
				t.Errorf("period (-want +got):\n%s", diff)
			}
			for _, end := range []time.Time{p.DayEnds, p.MonthEnds} {
				before, after := budget.PeriodAt(end.Add(-time.Second), zone), budget.PeriodAt(end, zone)
				if before.Day >= after.Day {
					t.Errorf("%s to %s is no change of day", before.Day, after.Day)
				}
			}
		})
	}
}

// TestDaysOfAPeriod are those that the database is asked for.
func TestDaysOfAPeriod(t *testing.T) {
	t.Parallel()
	date := func(d int) time.Time { return time.Date(2028, 2, d, 0, 0, 0, 0, time.UTC) }
	got := budget.PeriodAt(date(10).Add(time.Hour), time.UTC).Days()
	if diff := cmp.Diff(budget.DayRange{Day: date(10), From: date(1), To: date(29)}, got); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
}
