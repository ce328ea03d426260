package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// The daemon listens on an abstract socket, which needs no folder that can be written. Each user of a container has one
// of its own, since the containers of a pod share the names of such sockets.
func address() *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("@tenancy-inside-1-%d", os.Getuid()), Net: "unix"}
}

const startLimit = 5 * time.Second

// connect copies between its own input and output and the daemon, until one of them ends.
func connect() error {
	conn, err := reachDaemon()
	if err != nil {
		return err
	}
	if err := requireSameUser(conn); err != nil {
		return err
	}
	input, output := polled(0), polled(1)
	ended := make(chan struct{}, 2)
	copyAll := func(to io.Writer, from io.Reader) {
		io.Copy(to, from)
		ended <- struct{}{}
	}
	go copyAll(conn, input)
	go copyAll(output, conn)
	// A cut connection is how each of them ends.
	<-ended
	return nil
}

// polled makes a file whose reads and writes occupy no thread while they wait, which is twice as fast.
func polled(fd int) *os.File {
	// Without this it is slower.
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "")
}

func reachDaemon() (*net.UnixConn, error) {
	until := time.Now().Add(startLimit)
	for {
		conn, err := net.DialUnix("unix", nil, address())
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("cannot reach the daemon: %w", err)
		}
		err = startDaemon()
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("cannot start the daemon: %w", err)
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("cannot reach the daemon: it does not answer within %s", startLimit)
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// startDaemon hands the listening socket to the daemon: of two that start one, the second does not get the address.
//
// A process between them starts the daemon and ends, so that process 1 becomes the daemon's parent at once. A release
// stops the processes below process 1 before it saves the files, and an exec with its children is not below it.
func startDaemon() error {
	listener, err := net.ListenUnix("unix", address())
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	between := exec.Command("/proc/self/exe", "detach")
	between.ExtraFiles = []*os.File{socket}
	between.Stderr = os.Stderr
	return between.Run()
}

// detach starts the daemon, and ends without it.
func detach() error {
	daemon := exec.Command("/proc/self/exe", "serve")
	daemon.ExtraFiles = []*os.File{os.NewFile(listenerFd, "listener")}
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return daemon.Start()
}

// requireSameUser keeps another user of the container, or another container of the pod, out.
func requireSameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if peer.Pid == 0 {
		// Pods on the node's network share the names of such sockets, and not the numbers of processes.
		return errors.New("the other end is in another container")
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the other end runs as user %d, not as %d", peer.Uid, os.Getuid())
	}
	return nil
}
