package main

import (
	"strconv"
	"strings"
	"syscall"
)

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "ILL": syscall.SIGILL,
	"TRAP": syscall.SIGTRAP, "ABRT": syscall.SIGABRT, "BUS": syscall.SIGBUS, "FPE": syscall.SIGFPE,
	"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "SEGV": syscall.SIGSEGV, "USR2": syscall.SIGUSR2,
	"PIPE": syscall.SIGPIPE, "ALRM": syscall.SIGALRM, "TERM": syscall.SIGTERM, "CHLD": syscall.SIGCHLD,
	"CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP, "TTIN": syscall.SIGTTIN,
	"TTOU": syscall.SIGTTOU, "XCPU": syscall.SIGXCPU, "XFSZ": syscall.SIGXFSZ, "WINCH": syscall.SIGWINCH,
	"SYS": syscall.SIGSYS,
}

// signalNumber knows names with and without SIG.
func signalNumber(name string) (syscall.Signal, bool) {
	number, isKnown := signals[strings.TrimPrefix(name, "SIG")]
	return number, isKnown
}

func signalName(number syscall.Signal) string {
	for name, known := range signals {
		if known == number {
			return "SIG" + name
		}
	}
	return "SIG" + strconv.Itoa(int(number))
}
