package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	mostOutput = 1 << 20
	// Of a terminal, for those who come back to it.
	mostScrollback = 64 << 10
	// From the signal that asks a process to end to the one that ends it.
	endGrace = 2 * time.Second
	// A program can leave others that hold its outputs open. After its end they are read until they are silent for so
	// long, but not for longer than mostLate, nor more bytes than a pipe holds.
	outputGrace   = time.Second
	mostLate      = 2 * time.Second
	mostLateBytes = 1 << 20
)

// processState is how callers see a process.
type processState struct {
	Pid        int       `json:"pid"`
	Command    []rawText `json:"command"`
	Cwd        rawText   `json:"cwd"`
	Tty        bool      `json:"tty"`
	Background bool      `json:"background"`
	StartedAt  string    `json:"startedAt"`
	// As the caller gave it.
	Note    string `json:"note,omitempty"`
	EndedAt string `json:"endedAt,omitempty"`
	// Only after its end: one of these.
	ExitCode *int   `json:"exitCode,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
	// How many bytes it has written.
	StdoutBytes int64 `json:"stdoutBytes"`
	StderrBytes int64 `json:"stderrBytes"`
}

type size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

type startCall struct {
	Command []rawText `json:"command"`
	// Each as `NAME=value`.
	Env []rawText `json:"env"`
	Cwd rawText   `json:"cwd"`
	Tty *size     `json:"tty"`
	// Starts the user's login shell in place of a command.
	LoginShell bool `json:"loginShell"`
	// Whether the process goes on without the connection that started it.
	Background bool `json:"background"`
	// What the process reads first.
	Input []byte `json:"input"`
	// Whether callers send more of it. Otherwise its end follows.
	KeepInput      bool    `json:"keepInput"`
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	// About how many bytes of each output are sent; all of them without it.
	MostOutput int64 `json:"mostOutput"`
	// Whether another shell may run in place of a bash that the image lacks.
	AnyShell bool `json:"anyShell"`
	// What later callers see of the process beside its state.
	Note string `json:"note"`
}

type process struct {
	call      startCall
	command   []rawText
	cwd       string
	startedAt time.Time
	pid       int
	// The process's input, or its terminal. A caller that writes holds the turn.
	input          *os.File
	inputTurn      chan struct{}
	stdout, stderr *output

	mu       sync.Mutex
	endedAt  time.Time
	status   syscall.WaitStatus
	hasEnded bool
	timedOut bool
	// Whether it was asked to end for its caller or its time.
	isStopped bool
	// How many callers use the terminal, and since when there is none.
	attached int
	leftAt   time.Time

	// Closed once the process has ended and its output is complete.
	over chan struct{}
}

// startProcess starts a command as the leader of a session and of a process group.
func startProcess(call startCall) (*process, error) {
	env := environment(call)
	cwd, err := workFolder(call.Cwd)
	if err != nil {
		return nil, err
	}
	path, argv, err := programOf(call, env, cwd)
	if err != nil {
		return nil, err
	}
	p := &process{call: call, command: asRaw(argv), cwd: cwd, startedAt: time.Now(), over: make(chan struct{}),
		inputTurn: make(chan struct{}, 1)}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Dir: cwd, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	pumped := []*os.File{}
	theirs := []*os.File{}
	closeAll := func(files []*os.File) {
		for _, file := range files {
			file.Close()
		}
	}
	fail := func(err error) (*process, error) {
		closeAll(theirs)
		closeAll(pumped)
		if p.input != nil {
			p.input.Close()
		}
		return nil, startFailure(path, err)
	}
	if call.Tty != nil {
		controller, terminal, err := openTerminal(*call.Tty)
		if err != nil {
			return fail(fmt.Errorf("no terminal: %w", err))
		}
		theirs = append(theirs, terminal)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
		cmd.SysProcAttr.Setctty = true
		p.input = controller
		p.stdout, p.stderr = newOutput(mostScrollback), newOutput(0)
		pumped = append(pumped, controller)
	} else {
		if call.KeepInput || len(call.Input) > 0 {
			read, write, err := os.Pipe()
			if err != nil {
				return fail(err)
			}
			theirs = append(theirs, read)
			cmd.Stdin = read
			p.input = write
		}
		p.stdout, p.stderr = newOutput(mostOutput), newOutput(mostOutput)
		for _, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
			read, write, err := os.Pipe()
			if err != nil {
				return fail(err)
			}
			pumped = append(pumped, read)
			theirs = append(theirs, write)
			*to = write
		}
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	closeAll(theirs)
	p.pid = cmd.Process.Pid
	if call.TimeoutSeconds > 0 {
		timer := time.AfterFunc(time.Duration(call.TimeoutSeconds*float64(time.Second)), func() {
			p.mu.Lock()
			p.timedOut = !p.hasEnded
			p.mu.Unlock()
			p.stop()
		})
		go func() {
			<-p.over
			timer.Stop()
		}()
	}
	outputs := []*output{p.stdout, p.stderr}
	var pumps sync.WaitGroup
	for index, file := range pumped {
		pumps.Add(1)
		go func() {
			defer pumps.Done()
			p.pump(file, outputs[index])
		}()
	}
	go p.await(cmd, &pumps, pumped)
	isAlone := !call.Background && !call.KeepInput
	if len(call.Input) > 0 || (call.Tty != nil && isAlone) {
		p.inputTurn <- struct{}{}
		go p.giveFirst()
	}
	return p, nil
}

// giveFirst writes the input of the call, at the process's pace.
func (p *process) giveFirst() {
	p.input.Write(p.call.Input)
	isLine := len(p.call.Input) == 0 || p.call.Input[len(p.call.Input)-1] == '\n'
	p.call.Input = nil
	if !p.call.KeepInput {
		if !isLine && p.call.Tty != nil {
			// The first end of a terminal only sends the line that has been begun.
			p.endInput()
		}
		p.endInput()
	}
	<-p.inputTurn
}

// await notes the end of a process, and then of its output.
func (p *process) await(cmd *exec.Cmd, pumps *sync.WaitGroup, pumped []*os.File) {
	awaitEnd(p.pid)
	p.mu.Lock()
	// Until here its number belongs to it, so that no signal goes to another process.
	if p.isStopped {
		// What of its group has not ended with it would go on, and no call could end that.
		syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	cmd.Wait()
	p.hasEnded = true
	p.endedAt = time.Now()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.status = status
	}
	p.mu.Unlock()
	for _, file := range pumped {
		file.SetReadDeadline(time.Now().Add(outputGrace))
	}
	pumps.Wait()
	for _, file := range pumped {
		file.Close()
	}
	if p.input != nil {
		p.input.Close()
	}
	p.stdout.finish()
	p.stderr.finish()
	close(p.over)
}

// pump keeps what the process writes. A reader may hold it up for long, so only silence ends it.
func (p *process) pump(from *os.File, to *output) {
	buffer := make([]byte, 32<<10)
	late := 0
	for late < mostLateBytes {
		count, err := from.Read(buffer)
		if count > 0 {
			to.write(buffer[:count])
		}
		if err != nil {
			return
		}
		if endedAt, hasEnded := p.ended(); hasEnded {
			late += count
			if time.Since(endedAt) > mostLate {
				return
			}
			from.SetReadDeadline(time.Now().Add(outputGrace))
		}
	}
}

func (p *process) ended() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endedAt, p.hasEnded
}

// signal sends a signal to the process and its group, unless it has ended.
func (p *process) signal(number syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasEnded {
		return &failure{"ended", fmt.Sprintf("process %d has ended", p.pid)}
	}
	return syscall.Kill(-p.pid, number)
}

// stop ends the process and its group: it asks first.
func (p *process) stop() {
	p.mu.Lock()
	p.isStopped = true
	p.mu.Unlock()
	if p.call.Tty != nil {
		// A shell on a terminal ends by this one only.
		p.signal(syscall.SIGHUP)
	}
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	// One that is stopped would not see it.
	p.signal(syscall.SIGCONT)
	go func() {
		timer := time.NewTimer(endGrace)
		defer timer.Stop()
		select {
		case <-p.over:
		case <-timer.C:
			p.signal(syscall.SIGKILL)
		}
	}()
}

func (p *process) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// started is the process as it began, also if it has ended since.
func (p *process) started() processState {
	return processState{
		Pid: p.pid, Command: p.command, Cwd: rawText(p.cwd), Tty: p.call.Tty != nil, Background: p.call.Background,
		StartedAt: timeText(p.startedAt), Note: p.call.Note,
	}
}

func (p *process) state() processState {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.started()
	state.StdoutBytes, state.StderrBytes = p.stdout.size(), p.stderr.size()
	if p.hasEnded {
		state.EndedAt = timeText(p.endedAt)
		state.TimedOut = p.timedOut
		if p.status.Signaled() {
			state.Signal = signalName(p.status.Signal())
		} else {
			code := p.status.ExitStatus()
			state.ExitCode = &code
		}
	}
	return state
}

// timeText clamps what a file can say to the years of RFC 3339.
func timeText(at time.Time) string {
	at = at.UTC()
	switch {
	case at.Year() > 9999:
		at = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	case at.Year() < 1:
		at = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at.Format("2006-01-02T15:04:05.000Z")
}

func asRaw(texts []string) []rawText {
	raw := make([]rawText, len(texts))
	for index, text := range texts {
		raw[index] = rawText(text)
	}
	return raw
}

const (
	// Where a launcher keeps what the claim has given to the program: `NAME=value` and a zero byte.
	claimVariables = "/run/tenancy/variables"
	// Made before the pod's program is stopped for good.
	stopMark = "/run/tenancy/stop"
)

// isStopping says whether the files are about to be saved. What is written then would be lost without a word.
func isStopping() bool {
	_, err := os.Stat(stopMark)
	return err == nil
}

// environment is that of the container, with what the claim gives and then what the call gives.
func environment(call startCall) []string {
	values := map[string]string{}
	names := []string{}
	set := func(variable string) {
		name, value, isPair := strings.Cut(variable, "=")
		if !isPair || name == "" {
			return
		}
		if _, isKnown := values[name]; !isKnown {
			names = append(names, name)
		}
		values[name] = value
	}
	for _, variable := range os.Environ() {
		set(variable)
	}
	if given, err := os.ReadFile(claimVariables); err == nil {
		for _, variable := range strings.Split(string(given), "\x00") {
			set(variable)
		}
	}
	if call.Tty != nil {
		set("TERM=xterm-256color")
	}
	for _, variable := range call.Env {
		set(string(variable))
	}
	variables := make([]string, len(names))
	for index, name := range names {
		variables[index] = name + "=" + values[name]
	}
	return variables
}

// The folder that the image or the workload names: the daemon was started in it.
var ownFolder = func() string {
	folder, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return folder
}()

func workFolder(asked rawText) (string, error) {
	folder := string(asked)
	if folder == "" {
		folder = ownFolder
	} else if !filepath.IsAbs(folder) {
		folder = filepath.Join(ownFolder, folder)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return "", &failure{"noFolder", fmt.Sprintf("cannot start in %s: %v", folder, asFailure(err).Message)}
	}
	if !info.IsDir() {
		return "", &failure{"noFolder", fmt.Sprintf("cannot start in %s: it is no folder", folder)}
	}
	return folder, nil
}

// programOf finds what to run, and its arguments.
func programOf(call startCall, env []string, cwd string) (string, []string, error) {
	if call.LoginShell {
		path, argv := loginShell(env)
		return path, argv, nil
	}
	if len(call.Command) == 0 || call.Command[0] == "" {
		return "", nil, invalid("there is no command")
	}
	argv := make([]string, len(call.Command))
	for index, argument := range call.Command {
		argv[index] = string(argument)
	}
	program := argv[0]
	if call.AnyShell && filepath.Base(program) == "bash" && filepath.IsAbs(program) && !isProgram(program) {
		program, argv[0] = toolsBusybox, "sh"
		if isProgram("/bin/sh") {
			program = "/bin/sh"
		}
	}
	if strings.Contains(program, "/") {
		return program, argv, nil
	}
	for _, variable := range env {
		folders, isPath := strings.CutPrefix(variable, "PATH=")
		if !isPath {
			continue
		}
		for _, folder := range filepath.SplitList(folders) {
			if !filepath.IsAbs(folder) {
				folder = filepath.Join(cwd, folder)
			}
			path := filepath.Join(folder, program)
			if isProgram(path) {
				return path, argv, nil
			}
		}
	}
	return "", nil, &failure{"noProgram", fmt.Sprintf("there is no program %q in PATH", program)}
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func startFailure(path string, err error) error {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err
	}
	switch number {
	case syscall.ENOENT:
		return &failure{"noProgram", fmt.Sprintf("there is no program %s, or not the one that its first line names", path)}
	case syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR, syscall.ENOTDIR:
		return &failure{"noProgram", fmt.Sprintf("%s cannot be run: %v", path, number)}
	case syscall.E2BIG:
		return invalid("the command and its environment are too long: %v", number)
	}
	return err
}

// The tools' shell, for images without one.
const toolsBusybox = "/.tenancy/busybox"

// loginShell is the user's shell, or the first that there is.
func loginShell(env []string) (string, []string) {
	candidates := []string{}
	if users, err := os.ReadFile("/etc/passwd"); err == nil {
		own := fmt.Sprint(os.Getuid())
		for _, line := range strings.Split(string(users), "\n") {
			fields := strings.Split(line, ":")
			if len(fields) == 7 && fields[2] == own {
				candidates = append(candidates, fields[6])
				break
			}
		}
	}
	for _, variable := range env {
		if shell, isShell := strings.CutPrefix(variable, "SHELL="); isShell {
			candidates = append(candidates, shell)
		}
	}
	for _, shell := range append(candidates, "/bin/bash", "/usr/bin/bash", "/bin/sh") {
		switch filepath.Base(shell) {
		case "nologin", "false", "true":
			continue
		}
		if filepath.IsAbs(shell) && isProgram(shell) {
			return shell, []string{"-" + filepath.Base(shell)}
		}
	}
	return toolsBusybox, []string{"-sh"}
}
