package config

import (
	"path/filepath"
	"regexp"
	"strings"
)

// maxReferenced bounds what ${file:…} reads.
const maxReferenced = 64 * KiB

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// problem is what is wrong with a value and what to do about it.
type problem struct{ what, remedy string }

// substitute replaces the references in a value: ${VAR}, ${VAR:-default} (taken
// when VAR is unset or empty) and ${file:/path}. It works on a value that was
// already cut out of the file and looks at nothing it put in, so that neither
// YAML nor a reference in a variable has any meaning.
func substitute(text string, env func(string) (string, bool)) (string, []problem) {
	var out strings.Builder
	var problems []problem
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String(), problems
		}
		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", append(problems, problem{"has ${ without }", "close the reference"})
		}
		value, p := resolve(reference, env)
		if p != nil {
			problems = append(problems, *p)
		}
		out.WriteString(value)
		text = after
	}
}

// referred lists what the references in a value name.
func referred(text string) (names []string) {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "${")
		reference, left, closed := strings.Cut(after, "}")
		if !found || !closed {
			return names
		}
		name, _, _ := strings.Cut(reference, ":-")
		names, rest = append(names, name), left
	}
}

func resolve(reference string, env func(string) (string, bool)) (string, *problem) {
	if file, ok := strings.CutPrefix(reference, "file:"); ok {
		return readReferenced(file)
	}
	name, fallback, hasDefault := strings.Cut(reference, ":-")
	if !variable.MatchString(name) || strings.Contains(fallback, "${") {
		return "", &problem{"has a reference that is none", "write ${VAR}, ${VAR:-default} or ${file:/path}; a ${ that is part of a secret comes from a variable or a file"}
	}
	value, set := env(name)
	switch {
	case hasDefault && value == "":
		return fallback, nil
	case !set:
		return "", &problem{"needs " + name + ", which is not set", "set it, or give a default: ${" + name + ":-…}"}
	default:
		return value, nil
	}
}

// readReferenced returns a file's text without its last line break.
func readReferenced(file string) (string, *problem) {
	if !filepath.IsAbs(file) {
		return "", &problem{"needs a file by a relative path", "write ${file:/path} from the root"}
	}
	data, err := readRegular(file, maxReferenced)
	if err != nil {
		return "", &problem{"cannot read the file it refers to: " + err.Error(), "check the path and who may read it"}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// literal is what a value says beside the names of its references, defaults
// included.
func literal(text string) string {
	for _, name := range referred(text) {
		text = strings.Replace(text, "${"+name, "", 1)
	}
	return strings.NewReplacer(":-", "", "}", "").Replace(text)
}
