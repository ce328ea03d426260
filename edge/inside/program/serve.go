package main

import (
	"errors"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
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
	connections := &openConnections{open: map[*connection]bool{}}
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			// Such as too many open files, which passes.
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if requireSameUser(conn) != nil {
			conn.Close()
			continue
		}
		go connections.serve(newConnection(conn, table))
	}
	// A write that is cut off removes what it has begun.
	connections.end()
	table.end()
	return nil
}

type openConnections struct {
	mu   sync.Mutex
	open map[*connection]bool
}

func (o *openConnections) serve(c *connection) {
	o.mu.Lock()
	o.open[c] = true
	o.mu.Unlock()
	c.serve()
	o.mu.Lock()
	delete(o.open, c)
	o.mu.Unlock()
}

// end cuts all connections, and waits for their calls.
func (o *openConnections) end() {
	o.mu.Lock()
	all := make([]*connection, 0, len(o.open))
	for c := range o.open {
		all = append(all, c)
	}
	o.mu.Unlock()
	over := make(chan struct{})
	go func() {
		for _, c := range all {
			c.conn.Close()
			c.calls.Wait()
		}
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(endGrace):
	}
}
