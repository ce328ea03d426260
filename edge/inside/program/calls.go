package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// answerCall answers one call: it sends its answer and its data, and returns why it failed.
func answerCall(s *stream, payload []byte, table *processes) error {
	var asked struct {
		Call string `json:"call"`
	}
	if err := json.Unmarshal(payload, &asked); err != nil {
		return invalid("the call is no JSON: %v", err)
	}
	if isStopping() {
		return errEnding
	}
	switch asked.Call {
	case "start":
		return with(payload, func(call startCall) error { return table.startAndFollow(s, call) })
	case "run":
		return with(payload, func(call startCall) error { return table.run(s, call) })
	case "input":
		return with(payload, func(call inputCall) error { return table.input(s, call) })
	case "user":
		return s.answer(ownUser())
	case "attach":
		return with(payload, func(call attachCall) error { return table.attach(s, call) })
	case "processes":
		return table.list(s)
	case "background":
		return s.answer(table.backgroundUse())
	case "usage":
		return answerWith(s, func() (any, error) { return readUsage(s.ctx) })
	case "signal":
		return with(payload, func(call signalCall) error {
			state, err := table.signal(call)
			if err != nil {
				return err
			}
			return s.answer(state)
		})
	case "stat":
		return with(payload, func(call pathCall) error {
			return answerWith(s, func() (any, error) { return detailed(call.Details)(stat(call.Path)) })
		})
	case "read":
		return with(payload, func(call readCall) error { return readFile(s, call) })
	case "write":
		return with(payload, func(call writeCall) error {
			return answerWith(s, func() (any, error) { return writeFile(s, call) })
		})
	case "list":
		return with(payload, func(call listCall) error { return listFolder(s, call) })
	case "archive":
		return with(payload, func(call pathCall) error { return archiveFolder(s, call) })
	case "unpack":
		return with(payload, func(call unpackCall) error {
			return answerWith(s, func() (any, error) { return unpackInto(s, call) })
		})
	case "watch":
		return with(payload, func(call watchCall) error { return followFolder(s, call) })
	case "keepWatch":
		return with(payload, func(call watchCall) error {
			return answerWith(s, func() (any, error) { return keepWatch(call) })
		})
	case "watchEvents":
		return with(payload, func(call keptCall) error { return sendKept(s, call) })
	case "endWatch":
		return with(payload, func(call keptCall) error {
			return answerWith(s, func() (any, error) { return struct{}{}, endWatch(call) })
		})
	case "mkdir":
		return with(payload, func(call modeCall) error {
			return answerWith(s, func() (any, error) { return detailed(call.Details)(makeFolder(call)) })
		})
	case "move":
		return with(payload, func(call moveCall) error {
			return answerWith(s, func() (any, error) { return detailed(call.Details)(move(call)) })
		})
	case "mode":
		return with(payload, func(call modeCall) error {
			return answerWith(s, func() (any, error) { return setMode(call) })
		})
	case "remove":
		return with(payload, func(call removeCall) error {
			return answerWith(s, func() (any, error) { return struct{}{}, remove(call) })
		})
	}
	return &failure{"unknownCall", fmt.Sprintf("this version of the program knows no call %q", asked.Call)}
}

func with[T any](payload []byte, answer func(T) error) error {
	var call T
	if err := json.Unmarshal(payload, &call); err != nil {
		return invalid("the call is not valid: %v", err)
	}
	return answer(call)
}

func answerWith(s *stream, work func() (any, error)) error {
	result, err := work()
	if err != nil {
		return err
	}
	return s.answer(result)
}

// rawText is bytes that need not be UTF-8. In JSON it has one character for each byte.
type rawText string

func (t rawText) MarshalJSON() ([]byte, error) {
	characters := make([]rune, len(t))
	for index := range len(t) {
		characters[index] = rune(t[index])
	}
	return encode(string(characters))
}

// encode writes JSON without the escapes for HTML, with which a command with many `<` would be six times as long.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}

func (t *rawText) UnmarshalJSON(text []byte) error {
	var characters string
	if err := json.Unmarshal(text, &characters); err != nil {
		return err
	}
	raw := make([]byte, 0, len(characters))
	for _, character := range characters {
		if character > 0xff || character == 0 {
			return fmt.Errorf("the character %U is no byte of a path or an argument", character)
		}
		raw = append(raw, byte(character))
	}
	*t = rawText(raw)
	return nil
}
