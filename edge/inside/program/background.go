package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// backgroundUse is for a workload whose background processes count as use of the instance.
type backgroundUse struct {
	// Milliseconds since a process last ran in the background: 0 while one runs, null if there was none.
	UnusedMs *int64 `json:"unusedMs"`
}

// backgroundUse leaves out terminals: one that its user has left is ended soon.
func (t *processes) backgroundUse() backgroundUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	var unusedMs int64
	last := t.lastBackgroundEnd
	for _, p := range t.byPid {
		if !p.call.isBackgroundWork() {
			continue
		}
		if !p.isOver() {
			return backgroundUse{&unusedMs}
		}
		if p.endedAt.After(last) {
			last = p.endedAt
		}
	}
	if last.IsZero() {
		return backgroundUse{}
	}
	unusedMs = time.Since(last).Milliseconds()
	return backgroundUse{&unusedMs}
}

// background prints the daemon's answer as JSON. Without a daemon there are no processes, and none is started.
func background() error {
	conn, err := net.DialUnix("unix", nil, address())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return json.NewEncoder(os.Stdout).Encode(backgroundUse{})
	}
	if err != nil {
		return fmt.Errorf("cannot reach the daemon: %w", err)
	}
	defer conn.Close()
	if err := requireSameUser(conn); err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(startLimit))
	use, err := askBackgroundUse(conn)
	if err != nil {
		return fmt.Errorf("cannot ask the daemon: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(use)
}

func askBackgroundUse(conn net.Conn) (use backgroundUse, err error) {
	caller := &connection{conn: conn}
	if err = caller.send(frameCall, 1, []byte(`{"call":"background"}`)); err != nil {
		return use, err
	}
	var head [headBytes]byte
	for {
		if _, err = io.ReadFull(conn, head[:]); err != nil {
			return use, err
		}
		length := binary.BigEndian.Uint32(head[:4])
		if length > mostPayload {
			return use, fmt.Errorf("its answer has %d bytes", length)
		}
		payload := make([]byte, length)
		if _, err = io.ReadFull(conn, payload); err != nil {
			return use, err
		}
		switch head[4] {
		case frameAnswer:
			return use, json.Unmarshal(payload, &use)
		case frameError:
			return use, errors.New(string(payload))
		}
	}
}
