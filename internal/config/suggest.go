package config

import (
	"strconv"
	"strings"
)

// suggest is the remedy for a word that is not one of those known: the one
// that was probably meant, else all of them.
func suggest(word string, known []string) string {
	best, least := "", max(1, min(3, len(word)/2))+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), candidate); d < least {
			best, least = candidate, d
		}
	}
	switch {
	case best != "":
		return "did you mean " + strconv.Quote(best) + "?"
	case len(known) == 0:
		return "there is none to name"
	default:
		return "known here: " + strings.Join(known, ", ")
	}
}

// distance counts the letters to add, drop, change or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}
