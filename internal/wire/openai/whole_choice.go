package openai

// wholeChoice is one choice that is put together.
type wholeChoice struct {
	said     object // beside its message
	message  object
	texts    joined
	calls    []*wholeCall
	call     *wholeCall // the only one, of servers that are older
	logprobs map[string][][]byte
}

// joined are texts that come in pieces, as they stand between their quotes: an
// escape that is cut in two is whole again.
type joined struct {
	names []string
	texts map[string][]byte
}

func (j *joined) add(name string, value []byte) bool {
	switch {
	case isNull(value):
		return true
	case !isString(value):
		return false
	}
	if j.texts == nil {
		j.texts = map[string][]byte{}
	}
	if _, begun := j.texts[name]; !begun {
		j.names = append(j.names, name)
	}
	j.texts[name] = append(j.texts[name], value[1:len(value)-1]...)
	return true
}

// into gives an object the texts as its members.
func (j *joined) into(o *object) {
	for _, name := range j.names {
		o.set(name, j.value(name))
	}
}

func (j *joined) value(name string) []byte {
	return append(append([]byte{'"'}, j.texts[name]...), '"')
}

func (c *wholeChoice) add(choice object) bool {
	for _, m := range choice {
		ok := true
		switch m.name {
		case "index":
		case "delta":
			ok = c.addDelta(m.value)
		case "logprobs":
			ok = c.addLogprobs(m.value)
		default: // finish_reason is one of them
			ok = c.said.keepOnly(m)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (c *wholeChoice) addDelta(text []byte) bool {
	if isNull(text) {
		return true
	}
	delta, ok := readObject(text)
	for _, m := range delta {
		ok = ok && c.addToMessage(m)
	}
	return ok
}

func (c *wholeChoice) addToMessage(m member) bool {
	switch m.name {
	case "role":
		return c.message.keepFirst(m)
	case "content", "refusal", "reasoning", "reasoning_content", "thinking":
		return c.texts.add(m.name, m.value)
	case "tool_calls":
		return c.addCalls(m.value)
	case "function_call":
		if isNull(m.value) {
			return true
		}
		if c.call == nil {
			c.call = &wholeCall{}
		}
		return c.call.addFunction(m.value)
	}
	if c.message.get(m.name) != nil && !isNull(m.value) {
		return false // twice the same may mean it twice
	}
	return c.message.keepOnly(m)
}

func (c *wholeChoice) addCalls(text []byte) bool {
	if isNull(text) {
		return true
	}
	calls, ok := readArray(text)
	for _, text := range calls {
		ok = ok && c.addCall(text)
	}
	return ok
}

func (c *wholeChoice) addCall(text []byte) bool {
	call, ok := readObject(text)
	if !ok {
		return false
	}
	at, ok := smallIndex(call.get("index"), len(c.calls))
	if !ok {
		return false
	}
	if at == len(c.calls) {
		c.calls = append(c.calls, &wholeCall{})
	}
	return c.calls[at].add(call)
}

func (c *wholeChoice) addLogprobs(text []byte) bool {
	if isNull(text) {
		return true
	}
	probs, ok := readObject(text)
	if !ok {
		return false
	}
	if c.logprobs == nil {
		c.logprobs = map[string][][]byte{}
	}
	for _, m := range probs {
		if isNull(m.value) {
			continue
		}
		tokens, ok := readArray(m.value)
		if !ok || m.name != "content" && m.name != "refusal" {
			return false
		}
		c.logprobs[m.name] = append(c.logprobs[m.name], tokens...)
	}
	return true
}

// body writes the choice; it reports false for one that has not come to its end.
func (c *wholeChoice) body(index int) ([]byte, bool) {
	finish := c.said.get("finish_reason")
	if finish == nil || !isString(finish) {
		return nil, false
	}
	message, ok := c.wholeMessage()
	if !ok {
		return nil, false
	}
	said := object{{"index", appendCount(nil, int64(index))}, {"message", message.bytes()}}
	if c.logprobs != nil {
		said.set("logprobs", c.wholeLogprobs())
	}
	return append(said, c.said...).bytes(), true
}

func (c *wholeChoice) wholeMessage() (object, bool) {
	message := object{{"role", []byte(`"assistant"`)}, {"content", []byte("null")}}
	for _, m := range c.message {
		message.set(m.name, m.value)
	}
	c.texts.into(&message)
	var calls [][]byte
	for _, call := range c.calls {
		text, ok := call.body()
		if !ok {
			return nil, false
		}
		calls = append(calls, text)
	}
	if calls != nil {
		message.set("tool_calls", appendArray(nil, calls))
		if isEmptyText(message.get("content")) { // as an answer of calls alone says it
			message.set("content", []byte("null"))
		}
	}
	if c.call != nil {
		message.set("function_call", c.call.function().bytes())
	}
	return message, true
}

func (c *wholeChoice) wholeLogprobs() []byte {
	o := object{{"content", []byte("null")}, {"refusal", []byte("null")}}
	for name, tokens := range c.logprobs {
		o.set(name, appendArray(nil, tokens))
	}
	return o.bytes()
}

// wholeCall is one call of a tool that is put together.
type wholeCall struct {
	said  object // beside its function
	rest  object // of the function
	parts joined
}

func (c *wholeCall) add(call object) bool {
	for _, m := range call {
		ok := true
		switch m.name {
		case "index":
		case "function":
			ok = isNull(m.value) || c.addFunction(m.value)
		default:
			ok = c.said.keepOnly(m)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (c *wholeCall) addFunction(text []byte) bool {
	function, ok := readObject(text)
	for _, m := range function {
		switch m.name {
		case "arguments":
			ok = ok && c.parts.add(m.name, m.value)
		case "name":
			// Some servers say it again, others say it in pieces.
			ok = ok && (c.rest.get("name") == nil || isNull(m.value) || isEmptyText(m.value)) && c.rest.keepOnly(m)
		default:
			ok = ok && c.rest.keepOnly(m)
		}
	}
	return ok
}

func (c *wholeCall) function() object {
	function := c.rest.without()
	c.parts.into(&function)
	return function
}

// body writes the call; it reports false for one that names no function.
func (c *wholeCall) body() ([]byte, bool) {
	function := c.function()
	if function.get("name") == nil {
		return nil, false
	}
	call := c.said.without()
	call.set("function", function.bytes())
	return call.bytes(), true
}
