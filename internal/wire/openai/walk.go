// Package openai reads and writes the dialect of OpenAI's chat completions
// API, which many other servers speak: the facts of a request, the one splice
// it needs, what a chunk of a stream is, the usage and the soundness of an
// answer, and errors in both directions. It takes bytes and gives bytes: it
// does no I/O and knows neither providers nor the pipeline.
package openai

import "github.com/breakwater-llm/breakwater/internal/jsonscan"

// visible takes any value and returns the bytes of text in it that a person or
// a model reads: message texts, names and arguments of tool calls. Ids, roles,
// types and encoded media are not text.
func visible(s *jsonscan.Scanner) (n int) {
	switch s.Kind() {
	case jsonscan.Array:
		for s.Array(); s.Element(); {
			n += visible(s)
		}
	case jsonscan.Object:
		for s.Object(); s.Member(); {
			n += visibleMember(s)
		}
	default:
		s.Skip()
	}
	return n
}

// visibleMember takes the value of the member in hand and returns the bytes of
// visible text in it.
func visibleMember(s *jsonscan.Scanner) int {
	if s.Kind() == jsonscan.String && isText(s.Name) {
		return s.TextLen()
	}
	return visible(s)
}

func isText(name []byte) bool {
	switch string(name) {
	case "content", "text", "refusal", "reasoning", "reasoning_content", "thinking", "name", "arguments", "input":
		return true
	default:
		return false
	}
}

// isMedium reports whether a member of a message, or of a part of its content, is
// an image or a sound. A reference to an earlier sound is one.
func isMedium(name []byte) bool {
	switch string(name) {
	case "image_url", "image", "input_image", "input_audio", "audio_url", "audio":
		return true
	default:
		return false
	}
}

// isFile reports whether a member of a part is a file or a film.
func isFile(name []byte) bool {
	switch string(name) {
	case "file", "input_file", "document", "video_url", "video":
		return true
	default:
		return false
	}
}
