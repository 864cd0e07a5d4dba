package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Whatever is in a segment: reading it ends, every record that comes out is in
// it, those before the first damage do, and the next segment is read as ever.
func FuzzSpoolReader(f *testing.F) {
	whole := slices.Concat([]byte(header), appendFrame(nil, []byte("one")), appendFrame(nil, nil), appendFrame(nil, []byte(frameMark+"two")))
	f.Add(whole)
	f.Add(whole[:len(whole)-2])
	f.Add(append(slices.Clone(whole), 0, 0, 0))
	f.Add(slices.Concat(whole[:len(header)+3], whole))
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		after := slices.Concat([]byte(header), appendFrame(nil, []byte("after")))
		for number, content := range [][]byte{data, after} {
			if err := os.WriteFile(filepath.Join(dir, segmentName(uint64(number))), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, Config{Dir: dir})
		got := rest(t, s)
		s.Done()
		if len(got) == 0 || got[len(got)-1] != "after" {
			t.Fatalf("records %q do not end with that of the next segment", got)
		}
		for _, record := range got[:len(got)-1] {
			if !bytes.Contains(data, appendFrame(nil, []byte(record))) {
				t.Errorf("record %q is not in the segment", record)
			}
		}
		if intact := intactRecords(data); !slices.Equal(intact, got[:min(len(intact), len(got)-1)]) {
			t.Errorf("records %q, want those before the damage first: %q", got, intact)
		}
	})
}

// intactRecords are those before the first damage.
func intactRecords(data []byte) (all []string) {
	data, ok := bytes.CutPrefix(data, []byte(header))
	for ok {
		record, n, err := readFrame(data)
		if err != nil {
			break
		}
		all, data = append(all, string(record)), data[n:]
	}
	return all
}
