package responses

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/breakwater-llm/breakwater/internal/cache"
)

const (
	// shelvesAtOnce is how many shelves are looked at in one round trip, and
	// dropsAtOnce how many answers are taken away in one step: none of them may
	// take longer than the cache gives a call.
	shelvesAtOnce = 128
	dropsAtOnce   = 100
	// markLife is how long it is known when answers were cleared: longer than a call
	// may take.
	markLife = 24 * time.Hour
)

// Clear forgets all answers of a configuration, "" for those of direct targets,
// and says how many there were. When the cache cannot do it, it returns an error
// and how many are gone by then. What is under way is not kept when it comes.
func (s *Store) Clear(ctx context.Context, configuration string) (deleted int, err error) {
	// A server that is full refuses the mark, but it lets answers be taken away.
	if _, err := s.cache.Run(ctx, mark, []string{markKey(configuration)}, milliseconds(markLife)); err != nil && !errors.Is(err, cache.ErrRefused) {
		return 0, fmt.Errorf("forget answers of %q: %w", configuration, err)
	}
	all := shelves(time.Now())
	for len(all) > 0 {
		n := min(len(all), shelvesAtOnce)
		gone, err := s.clearShelves(ctx, configuration, all[:n])
		deleted += gone
		if err != nil {
			return deleted, fmt.Errorf("forget answers of %q: %w", configuration, err)
		}
		all = all[n:]
	}
	return deleted, nil
}

func (s *Store) clearShelves(ctx context.Context, configuration string, shelves []int64) (deleted int, err error) {
	runs := make([]cache.Run, len(shelves))
	for i, n := range shelves {
		runs[i] = cache.Run{Script: page, Keys: []string{shelfKey(configuration, n)}, Args: []string{"0"}}
	}
	for i, first := range s.cache.RunAll(ctx, runs) {
		if first.Err != nil {
			return deleted, first.Err
		}
		gone, err := s.clearShelf(ctx, configuration, runs[i].Keys[0], first.Values)
		deleted += gone
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// clearShelf takes away what a page of a shelf lists, and the pages behind it.
func (s *Store) clearShelf(ctx context.Context, configuration, shelf string, listed []string) (deleted int, err error) {
	for {
		cursor, fields := listed[0], listed[1:]
		for len(fields) > 0 {
			n := min(len(fields), 2*dropsAtOnce)
			gone, err := s.drop(ctx, configuration, shelf, fields[:n])
			deleted += gone
			if err != nil {
				return deleted, err
			}
			fields = fields[n:]
		}
		if cursor == "0" {
			return deleted, nil
		}
		if listed, err = s.cache.Run(ctx, page, []string{shelf}, cursor); err != nil {
			return deleted, err
		}
	}
}

// drop takes away answers: fields with the names of their pieces, in turn.
func (s *Store) drop(ctx context.Context, configuration, shelf string, listed []string) (int, error) {
	keys := []string{shelf}
	var fields, pieces []string
	for i := 0; i+1 < len(listed); i += 2 {
		key, ok := keyOf(configuration, listed[i])
		if !ok {
			continue
		}
		keys, fields = append(keys, entryKey(key)), append(fields, listed[i])
		pieces = append(pieces, piecesOf(key, listed[i+1])...)
	}
	if len(fields) == 0 {
		return 0, nil
	}
	answer, err := s.cache.Run(ctx, drop, keys, fields...)
	if err != nil {
		return 0, err
	}
	for _, piece := range pieces {
		if err := s.cache.Delete(ctx, piece); err != nil {
			return count(answer), err
		}
	}
	return count(answer), nil
}

func count(answer []string) int {
	n, _ := strconv.Atoi(answer[0])
	return n
}
