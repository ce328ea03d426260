// Command inside runs in a workload's container, as the workload's user: it starts processes there and reads and writes
// files, for an edge that reaches it by an exec of the Kubernetes API.
//
//	inside connect      what the edge executes: a pipe between its own input and output and the daemon
//	inside background   what the operator executes: prints when a process last ran in the background
//	inside detach       starts the daemon and ends; connect runs it
//	inside serve        the daemon
//
// The daemon outlives the exec that started it. So a process in the background, its output and its exit code stay in
// the pod, and any replica of the edge finds them there.
//
// It uses nothing but Go's standard library and is linked statically, so it runs in any image.
package main

import (
	"fmt"
	"os"
)

func main() {
	command := ""
	if len(os.Args) == 2 {
		command = os.Args[1]
	}
	var err error
	switch command {
	case "connect":
		err = connect()
	case "background":
		err = background()
	case "detach":
		err = detach()
	case "serve":
		err = serve()
	default:
		err = fmt.Errorf("usage: inside connect | background | detach | serve")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		os.Exit(1)
	}
}
