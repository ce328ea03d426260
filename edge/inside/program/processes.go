package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"sync"
	"syscall"
	"time"
)

const (
	mostRunning = 64
	// Those in the background that have ended are kept with their output.
	mostEnded     = 16
	mostTerminals = 20
	// How long a terminal waits for somebody to come back.
	terminalGrace = 5 * time.Minute
)

// The first byte of a message of data that a process's caller gets, or sends.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelState  = 3
	channelResize = 4
	channelClose  = 255
)

// processes are those that run, and those that have run in the background.
type processes struct {
	mu    sync.Mutex
	byPid map[int]*process
	// Those that are being started have no number yet.
	starting, startingTerminals int
	isEnding                    bool
	// When the last forgotten process in the background ended; zero before.
	lastBackgroundEnd time.Time
}

func newProcesses() *processes { return &processes{byPid: map[int]*process{}} }

type attachCall struct {
	Pid int `json:"pid"`
	// From which byte on; a negative one counts from the end. Without it, from the first that is kept.
	Stdout *int64 `json:"stdout"`
	Stderr *int64 `json:"stderr"`
	// Whether the output that comes later is wanted too.
	Follow bool `json:"follow"`
	// Whether the process waits for a caller that reads slowly, so that the caller misses nothing.
	Hold bool `json:"hold"`
	// Whether the caller sends input. A process without any gets none of it.
	Input bool `json:"input"`
	// Size of the caller's terminal.
	Tty *size `json:"tty"`
}

type signalCall struct {
	Pid    int    `json:"pid"`
	Signal string `json:"signal"`
}

func (t *processes) start(call startCall) (*process, error) {
	if err := t.reserve(call); err != nil {
		return nil, err
	}
	p, err := startProcess(call)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting--
	if call.isTerminal() {
		t.startingTerminals--
	}
	if err != nil {
		return nil, err
	}
	t.byPid[p.pid] = p
	if t.isEnding {
		p.signal(syscall.SIGKILL)
	}
	go func() {
		<-p.over
		t.forget(p)
	}()
	return p, nil
}

// isTerminal tells a terminal, which waits for its user to come back.
func (call startCall) isTerminal() bool { return call.Background && call.Tty != nil }

func (call startCall) isBackgroundWork() bool { return call.Background && call.Tty == nil }

func (t *processes) reserve(call startCall) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	running, terminals := t.starting, t.startingTerminals
	for _, p := range t.byPid {
		if p.isOver() {
			continue
		}
		running++
		if p.call.isTerminal() {
			terminals++
		}
	}
	switch {
	case t.isEnding:
		return errEnding
	case running >= mostRunning:
		return &failure{"busy", fmt.Sprintf("%d processes run already; end one first", mostRunning)}
	case call.isTerminal() && terminals >= mostTerminals:
		return &failure{"busy", fmt.Sprintf("%d terminals are open already; end one first", mostTerminals)}
	}
	t.starting++
	if call.isTerminal() {
		t.startingTerminals++
	}
	return nil
}

// forget drops what need not be kept: what has ended in the foreground, and the oldest of the background.
func (t *processes) forget(ended *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ended.call.Background && t.byPid[ended.pid] == ended {
		delete(t.byPid, ended.pid)
	}
	over := []*process{}
	for _, p := range t.byPid {
		if p.isOver() {
			over = append(over, p)
		}
	}
	sort.Slice(over, func(a, b int) bool { return over[a].endedAt.Before(over[b].endedAt) })
	for index := 0; index < len(over)-mostEnded; index++ {
		p := over[index]
		delete(t.byPid, p.pid)
		if p.call.isBackgroundWork() && p.endedAt.After(t.lastBackgroundEnd) {
			t.lastBackgroundEnd = p.endedAt
		}
	}
}

func (t *processes) find(pid int) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byPid[pid]
	if p == nil {
		return nil, &failure{"noProcess", fmt.Sprintf("no process %d was started here, or it has ended and is not kept", pid)}
	}
	return p, nil
}

// list sends the state of each process as a message of its own, in the order of their starts. Of a long command it
// sends the start.
func (t *processes) list(s *stream) error {
	t.mu.Lock()
	all := make([]*process, 0, len(t.byPid))
	for _, p := range t.byPid {
		all = append(all, p)
	}
	t.mu.Unlock()
	sort.Slice(all, func(a, b int) bool { return all[a].startedAt.Before(all[b].startedAt) })
	if err := s.answer(struct{}{}); err != nil {
		return err
	}
	for _, p := range all {
		state := p.state()
		state.Command = shownCommand(state.Command)
		if err := sendLine(s, state); err != nil {
			return err
		}
	}
	return nil
}

// sendLine sends a value as a line of JSON.
func sendLine(s *stream, value any) error {
	text, err := encode(value)
	if err != nil {
		return err
	}
	_, err = s.Write(append(text, '\n'))
	return err
}

func (t *processes) signal(call signalCall) (processState, error) {
	p, err := t.find(call.Pid)
	if err != nil {
		return processState{}, err
	}
	number, isKnown := signalNumber(call.Signal)
	if !isKnown {
		return processState{}, invalid("there is no signal %q", call.Signal)
	}
	if err := p.signal(number); err != nil {
		return processState{}, err
	}
	return p.state(), nil
}

// startAndFollow starts a process. One in the foreground is followed to its end, and is stopped if its caller goes.
func (t *processes) startAndFollow(s *stream, call startCall) error {
	p, err := t.start(call)
	if err != nil {
		return err
	}
	if call.Background {
		if call.isTerminal() {
			t.watchTerminal(p)
		}
		return s.answer(p.state())
	}
	stdout, stderr := p.stdout.reader(0, true), p.stderr.reader(0, true)
	defer stdout.release()
	defer stderr.release()
	if err := s.answer(p.started()); err != nil {
		p.stop()
		return err
	}
	if call.KeepInput {
		go p.takeInput(s)
	}
	err = p.follow(s, stdout, stderr, followed{toEnd: true, most: call.MostOutput})
	if err != nil {
		p.stop()
	}
	return err
}

func (t *processes) attach(s *stream, call attachCall) error {
	p, err := t.find(call.Pid)
	if err != nil {
		return err
	}
	from := func(offset *int64) int64 {
		if offset == nil {
			return 0
		}
		return *offset
	}
	stdout, stderr := p.stdout.reader(from(call.Stdout), call.Hold), p.stderr.reader(from(call.Stderr), call.Hold)
	defer stdout.release()
	defer stderr.release()
	defer p.use()()
	if err := s.answer(p.state()); err != nil {
		return err
	}
	if call.Tty != nil && p.call.Tty != nil {
		setSize(p.input, *call.Tty)
	}
	if call.Input && (p.call.Tty != nil || p.call.KeepInput) {
		go p.takeInput(s)
	}
	return p.follow(s, stdout, stderr, followed{toEnd: call.Follow})
}

// use counts a caller of a terminal until the returned function is called.
func (p *process) use() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attached++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.attached--
		p.leftAt = time.Now()
	}
}

// followed is how much of a process's output is sent.
type followed struct {
	// What comes later too, until the process is over.
	toEnd bool
	// Of each output, about so many bytes; 0 for all of them.
	most int64
}

// follow sends both outputs, each message with its channel and offset, and at the end the state of the process.
func (p *process) follow(s *stream, stdout, stderr *outputReader, wanted followed) error {
	const head = 9
	buffer := make([]byte, head+32<<10)
	send := func(channel byte, r *outputReader) (bool, <-chan struct{}, error) {
		if wanted.most > 0 && r.at >= wanted.most {
			// The process goes on writing at its own pace.
			r.release()
			return false, nil, nil
		}
		count, offset, changed := r.next(buffer[head:])
		if count == 0 {
			return false, changed, nil
		}
		buffer[0] = channel
		binary.BigEndian.PutUint64(buffer[1:], uint64(offset))
		return true, nil, s.message(buffer[:head+count])
	}
	for {
		sentOut, outChanged, err := send(channelStdout, stdout)
		if err != nil {
			return err
		}
		sentErr, errChanged, err := send(channelStderr, stderr)
		if err != nil {
			return err
		}
		if sentOut || sentErr {
			continue
		}
		if !wanted.toEnd || (outChanged == nil && errChanged == nil) {
			break
		}
		select {
		case <-outChanged:
		case <-errChanged:
		case <-s.ctx.Done():
			return errGone
		}
	}
	if wanted.toEnd {
		select {
		case <-p.over:
		case <-s.ctx.Done():
			return errGone
		}
	}
	state, err := encode(p.state())
	if err != nil {
		return err
	}
	_, err = s.Write(append([]byte{channelState}, state...))
	return err
}

// takeInput gives the caller's messages to the process: each is a channel, a length (4 bytes) and so many bytes. Their
// end is not that of the process's input, since another caller may follow.
func (p *process) takeInput(s *stream) {
	var head [5]byte
	buffer := make([]byte, 32<<10)
	for {
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return
		}
		part := io.LimitReader(s, int64(binary.BigEndian.Uint32(head[1:])))
		switch head[0] {
		case channelStdin:
			p.writeInput(s, part, buffer)
		case channelResize:
			var wanted size
			if json.NewDecoder(part).Decode(&wanted) == nil && p.call.Tty != nil {
				setSize(p.input, wanted)
			}
		case channelClose:
			// What another caller has begun to write goes first.
			if p.takeTurn(s) {
				p.endInput()
				<-p.inputTurn
			}
		}
		// A process that has ended, or has closed its input, takes no more.
		if _, err := io.CopyBuffer(io.Discard, part, buffer); err != nil {
			return
		}
	}
}

// writeInput waits for a process that reads slowly, until the caller has gone.
func (p *process) writeInput(s *stream, part io.Reader, buffer []byte) error {
	if !p.takeTurn(s) {
		return errGone
	}
	cut := make(chan struct{})
	isOver := context.AfterFunc(s.ctx, func() {
		p.input.SetWriteDeadline(time.Now())
		close(cut)
	})
	_, err := io.CopyBuffer(struct{ io.Writer }{p.input}, part, buffer)
	if !isOver() {
		<-cut
		p.input.SetWriteDeadline(time.Time{})
	}
	<-p.inputTurn
	return err
}

// takeTurn waits until no other caller writes. It fails once the caller has gone, or the process is over.
func (p *process) takeTurn(s *stream) bool {
	select {
	case p.inputTurn <- struct{}{}:
		return true
	case <-s.ctx.Done():
	case <-p.over:
	}
	return false
}

// endInput closes the input. A terminal has no end of its own: the character for it ends what reads a line.
func (p *process) endInput() {
	if p.call.Tty != nil {
		p.input.Write([]byte{4})
		return
	}
	p.input.Close()
}

// watchTerminal ends a terminal that no caller has come back to.
func (t *processes) watchTerminal(p *process) {
	p.leftAt = time.Now()
	go func() {
		for {
			timer := time.NewTimer(terminalGrace / 20)
			select {
			case <-p.over:
				timer.Stop()
				return
			case <-timer.C:
			}
			p.mu.Lock()
			isLeft := p.attached == 0 && time.Since(p.leftAt) > terminalGrace
			p.mu.Unlock()
			if isLeft {
				p.stop()
				return
			}
		}
	}()
}

// end stops all processes, and waits for their end.
func (t *processes) end() {
	t.mu.Lock()
	t.isEnding = true
	running := []*process{}
	for _, p := range t.byPid {
		running = append(running, p)
	}
	t.mu.Unlock()
	for _, p := range running {
		p.stop()
	}
	limit := time.After(endGrace + mostLate)
	for _, p := range running {
		select {
		case <-p.over:
		case <-limit:
			return
		}
	}
}
