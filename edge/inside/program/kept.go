package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

const (
	// Of what has changed and was not asked for.
	mostKeptBytes = 1 << 20
	// A watch whose caller has not asked for so long ends.
	keptFor = time.Hour
)

type keptCall struct {
	Id string `json:"id"`
}

// keptAnswer says how many bytes of lines follow.
type keptAnswer struct {
	IsLost bool `json:"isLost"`
	Bytes  int  `json:"bytes"`
}

// keptWatch holds what changes in a folder until a caller asks for it. It belongs to no connection, so that any edge
// may ask.
type keptWatch struct {
	ctx    context.Context
	cancel context.CancelFunc
	begun  chan struct{}
	over   chan struct{}
	expiry *time.Timer
	// Held by the call that sends what is kept.
	turn chan struct{}

	mu     sync.Mutex
	lines  []byte
	isLost bool
	err    error
}

var (
	keptMu sync.Mutex
	kept   = map[string]*keptWatch{}
)

func (k *keptWatch) context() context.Context { return k.ctx }

func (k *keptWatch) begin() error {
	close(k.begun)
	return nil
}

// Write keeps whole lines, since only whole buffers come from the watch: after the first that is too much, none.
func (k *keptWatch) Write(data []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isLost = k.isLost || len(k.lines)+len(data) > mostKeptBytes
	if !k.isLost {
		k.lines = append(k.lines, data...)
	}
	return len(data), nil
}

// keepWatch begins a watch. It has its place until endWatch, also when its folder has gone: what it has kept stays.
func keepWatch(call watchCall) (any, error) {
	if err := takeWatch(); err != nil {
		return nil, err
	}
	k := &keptWatch{begun: make(chan struct{}), over: make(chan struct{}), turn: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	go func() {
		err := watchFolder(k, call)
		k.mu.Lock()
		k.err = err
		k.mu.Unlock()
		close(k.over)
	}()
	select {
	case <-k.begun:
	case <-k.over:
		k.cancel()
		releaseWatch()
		return nil, k.err
	}
	var random [8]byte
	rand.Read(random[:])
	id := "w" + hex.EncodeToString(random[:])
	keptMu.Lock()
	defer keptMu.Unlock()
	kept[id] = k
	k.expiry = time.AfterFunc(keptFor, func() { endWatch(keptCall{id}) })
	return keptCall{id}, nil
}

func findKept(id string) (*keptWatch, error) {
	keptMu.Lock()
	defer keptMu.Unlock()
	return findKeptLocked(id)
}

func findKeptLocked(id string) (*keptWatch, error) {
	k := kept[id]
	if k == nil {
		return nil, &failure{"notFound", fmt.Sprintf("there is no watcher %q, or it was not asked for an hour", id)}
	}
	return k, nil
}

// sendKept sends what has changed since the last call, as lines of JSON. It forgets them once the caller has ended its
// input: a caller that leaves before has not got them, and the next one does.
func sendKept(s *stream, call keptCall) error {
	k, err := findKept(call.Id)
	if err != nil {
		return err
	}
	k.expiry.Reset(keptFor)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-s.ctx.Done():
		return errGone
	}
	k.mu.Lock()
	lines, isLost, err := k.lines, k.isLost, k.err
	k.mu.Unlock()
	if err != nil && len(lines) == 0 {
		return err
	}
	if err := s.answer(keptAnswer{isLost, len(lines)}); err != nil {
		return err
	}
	if _, err := s.Write(lines); err != nil {
		return err
	}
	if !s.waitForEnd() {
		return errGone
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append([]byte(nil), k.lines[len(lines):]...)
	k.isLost = k.isLost && !isLost
	return nil
}

func endWatch(call keptCall) error {
	keptMu.Lock()
	defer keptMu.Unlock()
	k, err := findKeptLocked(call.Id)
	if err != nil {
		return err
	}
	delete(kept, call.Id)
	k.expiry.Stop()
	k.cancel()
	releaseWatch()
	return nil
}
