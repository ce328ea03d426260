package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// The first byte of a message to a terminal, in calls that tell it from the input of another process.
const channelTerminal = 5

type inputCall struct {
	Pid int `json:"pid"`
}

// run starts a process and follows it. Unlike one in the foreground it goes on without its caller, and waits for a
// caller that reads slowly.
func (t *processes) run(s *stream, call startCall) error {
	call.Background = true
	if call.Cwd != "" {
		cwd, err := absolute(call.Cwd)
		if err != nil {
			return err
		}
		call.Cwd = rawText(cwd)
	}
	p, err := t.start(call)
	if err != nil {
		return err
	}
	stdout, stderr := p.stdout.reader(0, true), p.stderr.reader(0, true)
	defer stdout.release()
	defer stderr.release()
	defer p.use()()
	if err := s.answer(p.state()); err != nil {
		return err
	}
	return p.follow(s, stdout, stderr, followed{toEnd: true})
}

// input gives the caller's messages to a process, in the format of takeInput, and answers once it has taken them.
func (t *processes) input(s *stream, call inputCall) error {
	p, err := t.find(call.Pid)
	if err != nil {
		return err
	}
	if p.isOver() {
		return &failure{"ended", "the process has ended"}
	}
	defer p.use()()
	var head [5]byte
	buffer := make([]byte, 32<<10)
	for {
		_, err := io.ReadFull(s, head[:])
		if err == io.EOF {
			return s.answer(struct{}{})
		}
		if err != nil {
			return err
		}
		part := io.LimitReader(s, int64(binary.BigEndian.Uint32(head[1:])))
		if err := p.takePart(s, head[0], part, buffer); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(io.Discard, part, buffer); err != nil {
			return err
		}
	}
}

// takePart gives one message to the process.
func (p *process) takePart(s *stream, channel byte, part io.Reader, buffer []byte) error {
	isTerminal := p.call.Tty != nil
	switch {
	case isTerminal && (channel == channelStdin || channel == channelClose):
		return &failure{"isTerminal", "the process has a terminal: send the input, and Ctrl+D (0x04) for its end, to that"}
	case !isTerminal && (channel == channelTerminal || channel == channelResize):
		return &failure{"noTerminal", "the process has no terminal"}
	case p.input == nil && channel != channelClose:
		return &failure{"noInput", "the process was started without an input"}
	}
	switch channel {
	case channelStdin, channelTerminal:
		return inputFailure(p.writeInput(s, part, buffer))
	case channelResize:
		var wanted size
		if err := json.NewDecoder(part).Decode(&wanted); err != nil {
			return invalid("the size of a terminal is not valid: %v", err)
		}
		return setSize(p.input, wanted)
	case channelClose:
		// What another caller has begun to write goes first.
		if p.input == nil || !p.takeTurn(s) {
			return nil
		}
		p.endInput()
		<-p.inputTurn
		return nil
	}
	return invalid("there is no channel %d", channel)
}

func inputFailure(err error) error {
	switch {
	case errors.Is(err, fs.ErrClosed), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EIO):
		return &failure{"noInput", "the process has ended, or its input is closed"}
	}
	return err
}
