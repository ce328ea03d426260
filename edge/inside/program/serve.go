package main

import (
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// The socket that startDaemon and detach hand over.
const listenerFd = 3

// Of the pod's memory, beside the output that is kept.
const memoryLimit = 32 << 20

// serve answers connections until it is told to end. It ends with the processes that it has started: what ends it is
// the stop of the pod's program, and nothing may write files after that.
//
// It does not end by itself: process 1 of many images waits for no child, so each end would leave a zombie.
func serve() error {
	debug.SetMemoryLimit(memoryLimit)
	file := os.NewFile(listenerFd, "listener")
	accepted, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return err
	}
	listener := accepted.(*net.UnixListener)
	table := newProcesses()
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ending
		listener.Close()
	}()
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			break
		}
		if requireSameUser(conn) != nil {
			conn.Close()
			continue
		}
		go newConnection(conn, table).serve()
	}
	table.end()
	return nil
}
