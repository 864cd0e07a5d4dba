package admin

import (
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-llm/breakwater/internal/breaker"
	"github.com/breakwater-llm/breakwater/web/templates"
)

// noticeOf is what the overview says of a subject that needs attention: its
// mark, and its facts but for times; nil where it does not.
func noticeOf(page *goquery.Document, subject string) []string {
	notice := page.Find("section[aria-labelledby=attention] .notice").FilterFunction(func(_ int, one *goquery.Selection) bool {
		return text(one.Find(".subject")) == subject
	})
	if notice.Length() == 0 {
		return nil
	}
	said := []string{text(notice.Find(".mark").First())}
	for _, fact := range notice.Find("dl > div").EachIter() {
		if fact.Find("time").Length() == 0 {
			said = append(said, text(fact.Find("dt"))+": "+text(fact.Find("dd")))
		}
	}
	return said
}

func TestADatabaseThatIsAwaySaysWhereRecordsWait(t *testing.T) {
	t.Parallel()
	const alone = "Next: What waits is written when it returns. New records wait in memory alone; with no room left there the newest are dropped."
	for name, test := range map[string]struct {
		spool        Spool
		onDisk, next string
	}{
		"a spool with room": {
			Spool{Bytes: 12_900_000, Max: 1 << 30}, "On disk: 12.3 MiB of 1 GiB in the spool",
			"Next: What waits is written when it returns, the oldest first. When the spool is full records wait in memory; with no room left there either the newest are dropped.",
		},
		"a full spool":  {Spool{Bytes: 1 << 30, Max: 1 << 30, Trouble: SpoolFull, Since: noon}, "On disk: 1 GiB of 1 GiB in the spool", alone},
		"a failing one": {Spool{Bytes: 19, Max: 1 << 30, Trouble: SpoolFailing, Since: noon}, "On disk: 19 bytes of 1 GiB in the spool", alone},
		"none":          {Spool{Trouble: SpoolUnusable, Since: noon}, "On disk: Nothing: the spool is unusable", alone},
	} {
		w := &world{database: Database{Away: true, Waiting: 3, Room: 65536, Spool: test.spool}}
		want := []string{
			"Away", "Why: It cannot be reached; calls are served, scores and runs are not fresh",
			test.onDisk, "In memory: 3 records, with room for 65,536 of each kind", test.next,
		}
		if diff := cmp.Diff(want, noticeOf(document(t, serve(t, w.pages()), "/"), "database")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// With the database there, a spool that takes nothing harms nobody yet: the page
// does not say that all is well.
func TestASpoolThatTakesNothingIsShown(t *testing.T) {
	t.Parallel()
	const there = "Means: While the database takes records nothing is lost. Without it they would wait in memory alone, and be lost where the gateway ends before it returns."
	const away = "Means: The database is away: records wait in memory alone, and are lost where the gateway ends before it returns."
	for trouble, test := range map[SpoolTrouble]struct{ mark, why, next string }{
		SpoolUnusable: {
			"Unusable", "Why: The directory could not be used when the gateway started; the log has the error",
			"Next: Nothing by itself: make telemetry.spool_dir a directory that the gateway's user may write, and restart.",
		},
		SpoolFull: {
			"Full", "Why: It takes no more than telemetry.spool_max",
			"Next: It has room again when the database has taken what is in it. Where the disk has more room, raise telemetry.spool_max and restart: what waits on disk stays.",
		},
		SpoolFailing: {
			"Failing", "Why: The disk does not take what is written; the log has the error",
			"Next: It is tried again with the next records: see to the disk of telemetry.spool_dir.",
		},
	} {
		w := &world{circuits: []breaker.Snapshot{{Key: "a/m/r", Enabled: true}}}
		w.database.Spool = Spool{Trouble: trouble, Since: time.Now().Add(-time.Hour)}
		server := serve(t, w.pages())
		page := document(t, server, "/")
		if diff := cmp.Diff([]string{test.mark, test.why, there, test.next}, noticeOf(page, "spool")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", trouble, diff)
		}
		if got, want := text(page.Find("title")), "spool "+string(trouble)+" · Breakwater"; got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
		if got := page.Find(".banner").HasClass(string(templates.Caution)); !got {
			t.Errorf("%s: the banner is not one of caution", trouble)
		}
		w.change(func(w *world) { w.database.Away = true })
		if diff := cmp.Diff([]string{test.mark, test.why, away, test.next}, noticeOf(document(t, server, "/"), "spool")); diff != "" {
			t.Errorf("%s with the database away (-want +got):\n%s", trouble, diff)
		}
	}
	if got := noticeOf(document(t, serve(t, incident(time.Now()).pages()), "/"), "spool"); got != nil {
		t.Errorf("of a spool that is well the page says %q", got)
	}
}
