package budget

import (
	"sort"
	"time"
)

const (
	dayFormat   = "2006-01-02"
	monthFormat = "2006-01"
)

// Period is the day and the month on which a call counts: those of its receipt,
// in one time zone.
type Period struct {
	Day   string // 2026-11-30
	Month string // 2026-11

	DayEnds   time.Time // when the next day begins, which may be 23 or 25 hours after this one
	MonthEnds time.Time
}

// PeriodAt returns the period of a moment in a time zone.
func PeriodAt(at time.Time, zone *time.Location) Period {
	at = at.In(zone)
	year, month, day := at.Date()
	return Period{
		Day:       at.Format(dayFormat),
		Month:     at.Format(monthFormat),
		DayEnds:   midnight(year, month, day+1, zone),
		MonthEnds: midnight(year, month+1, 1, zone),
	}
}

// midnight returns the first moment of a day. It is 0:00 but where clocks are
// changed at that hour: then there is none, or there are two.
func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, 0, 0, 0, 0, zone)
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(dayFormat)
	begun := func(t time.Time) bool { return t.Format(dayFormat) >= date }
	if begun(at) && !begun(at.Add(-time.Second)) {
		return at
	}
	early := at.Add(-26 * time.Hour)
	seconds := sort.Search(2*26*60*60, func(n int) bool { return begun(early.Add(time.Duration(n) * time.Second)) })
	return early.Add(time.Duration(seconds) * time.Second)
}

// Days returns which days of Books the period is made of.
func (p Period) Days() DayRange {
	day, err := time.Parse(dayFormat, p.Day)
	if err != nil {
		return DayRange{}
	}
	return DayRange{
		Day:  day,
		From: time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC),
		To:   time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC),
	}
}
