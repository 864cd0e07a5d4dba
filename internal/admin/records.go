package admin

import "github.com/breakwater-llm/breakwater/web/templates"

func (r reading) databaseTrouble() string {
	if !r.database.Away {
		return ""
	}
	return "database away"
}

func (r reading) spoolTrouble() string {
	if r.database.Spool.Trouble == "" {
		return ""
	}
	return "spool " + string(r.database.Spool.Trouble)
}

// databaseNotice says where records wait while the database is away, and what
// becomes of them.
func (r reading) databaseNotice() templates.Notice {
	onDisk, next := size(r.database.Spool.Bytes)+" of "+size(r.database.Spool.Max)+" in the spool",
		"What waits is written when it returns, the oldest first. When the spool is full records wait in memory; with no room left there either the newest are dropped."
	switch r.database.Spool.Trouble {
	case SpoolUnusable:
		onDisk, next = "Nothing: the spool is unusable", inMemoryAlone
	case SpoolFull, SpoolFailing:
		next = inMemoryAlone
	}
	return templates.Notice{
		Mark: templates.Mark{Tone: templates.Bad, Text: "Away"}, Subject: "database",
		Facts: []templates.Fact{
			{Name: "Why", Value: "It cannot be reached; calls are served, scores and runs are not fresh"},
			{Name: "On disk", Value: onDisk},
			{Name: "In memory", Value: count(r.database.Waiting, "record") + ", with room for " + grouped(r.database.Room) + " of each kind"},
			{Name: "Next", Value: next},
		},
	}
}

const inMemoryAlone = "What waits is written when it returns. New records wait in memory alone; with no room left there the newest are dropped."

// spoolNotice says why nothing can wait on disk, what that means, and what a
// person can do about it. It harms nothing while the database is there.
func (r reading) spoolNotice() templates.Notice {
	s := r.database.Spool
	why, remedy := s.Trouble.inWords()
	notice := templates.Notice{
		Mark: templates.Mark{Tone: templates.Caution, Text: sentence(string(s.Trouble))}, Subject: "spool",
		Facts: []templates.Fact{
			{Name: "Why", Value: why},
			{Name: "Since", Moment: since(s.Since, r.now)},
			{Name: "Means", Value: "While the database takes records nothing is lost. Without it they would wait in memory alone, and be lost where the gateway ends before it returns."},
			{Name: "Next", Value: remedy},
		},
	}
	if r.database.Away {
		notice.Mark.Tone = templates.Bad
		notice.Facts[2].Value = "The database is away: records wait in memory alone, and are lost where the gateway ends before it returns."
	}
	return notice
}

// inWords says what the trouble is, and what a person can do about it.
func (t SpoolTrouble) inWords() (why, remedy string) {
	switch t {
	case SpoolUnusable:
		return "The directory could not be used when the gateway started; the log has the error",
			"Nothing by itself: make telemetry.spool_dir a directory that the gateway's user may write, and restart."
	case SpoolFull:
		return "It takes no more than telemetry.spool_max",
			"It has room again when the database has taken what is in it. Where the disk has more room, raise telemetry.spool_max and restart: what waits on disk stays."
	default:
		return "The disk does not take what is written; the log has the error",
			"It is tried again with the next records: see to the disk of telemetry.spool_dir."
	}
}
