package budget

import "testing"

// FuzzFields reads fields that anybody may have written: what is read comes back
// as it was, and nothing else is read at all.
func FuzzFields(f *testing.F) {
	f.Add(header{birth: "b", last: 1, next: 2, live: 3, day: "2026-11-30", month: "2026-11", unknown: true}.encode())
	f.Add(tally{spent: sums{1, 2, 3}, reserved: sums{4, 5, top}}.encode())
	f.Add(entry{state: stateLive, expires: 1, at: 2, counted: true, amount: sums{1, 2, 3}, day: "2026-11-30", month: "2026-11"}.encode())
	var some window
	some.add(101, 3, 4)
	some.add(100, 1, 2)
	f.Add(some.encode())
	f.Add(some.encode()[:windowBytes+slotBytes+1])
	f.Fuzz(func(t *testing.T, text string) {
		if h, ok := decodeHeader(text); ok {
			if again, ok := decodeHeader(h.encode()); !ok || again != h {
				t.Errorf("header %q: got %+v, then %+v", text, h, again)
			}
		}
		if s, ok := decodeTally(text); ok {
			if again, ok := decodeTally(s.encode()); !ok || again != s {
				t.Errorf("tally %q: got %+v, then %+v", text, s, again)
			}
		}
		if e, ok := decodeEntry(text); ok {
			if again, ok := decodeEntry(e.encode()); !ok || again != e {
				t.Errorf("entry %q: got %+v, then %+v", text, e, again)
			}
		}
		var w, again window
		w.read(text, 130)
		if again.read(w.encode(), 130); again.encode() != w.encode() {
			t.Errorf("window %q: got %q, then %q", text, w.encode(), again.encode())
		}
		if w.requests < 0 || w.tokens < 0 || w.seconds > 0 && (w.first+windowSeconds < 130 || w.first+int64(w.seconds)-1 > 130) {
			t.Errorf("window %q is read as %+v", text, w)
		}
	})
}
