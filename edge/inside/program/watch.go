package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	mostWatches = 16
	// The kernel's limit is one for all containers of a user on a machine, often some ten thousand.
	mostWatchedFolders = 8192
	// Changes of a path within this time are reported as one.
	coalesceFor = 100 * time.Millisecond
	// Enough for all that the kernel holds, 16 384 events.
	mostReads = 128
	// How often a change is reported later, since what the kernel has said is not what is there: it will say more.
	mostHeld = 5

	watchedEvents = syscall.IN_CREATE | syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_DELETE | syscall.IN_MOVED_FROM |
		syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR | syscall.IN_EXCL_UNLINK
	endOfRoot = syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_UNMOUNT
)

// Of all callers.
var openWatches, watchedFolders atomic.Int64

var (
	errFolderGone     = errors.New("the folder was removed or moved")
	errTooManyFolders = &failure{"tooMany", fmt.Sprintf(
		"more than %d folders would be watched in this instance: watch a part of it, or less deep", mostWatchedFolders)}
	errNoMoreWatches = &failure{"tooMany",
		"this machine allows no more watched folders for the workload's user (fs.inotify.max_user_watches)"}
	errNoMoreInstances = &failure{"busy",
		"this machine allows no more watches for the workload's user (fs.inotify.max_user_instances); try again later"}
)

type watchCall struct {
	Path rawText `json:"path"`
	// How many folders deep; 1 is the folder itself.
	Depth int `json:"depth"`
}

// watchEvent is sent as a line of JSON. Paths are those below the folder.
type watchEvent struct {
	// created, changed, moved, removed; overflow, after which the folder has to be listed again; ended.
	Type string  `json:"type"`
	Path rawText `json:"path,omitempty"`
	// Where it was before it was moved.
	From rawText `json:"from,omitempty"`
	// What is there, if it still is.
	Entry *entry `json:"entry,omitempty"`
	// Of what was changed: only its permissions and times were.
	OnlyAttributes bool `json:"onlyAttributes,omitempty"`
	// Why a watch has ended: folderGone, tooManyFolders.
	Reason string `json:"reason,omitempty"`
}

// watchCaller gets what changes.
type watchCaller interface {
	io.Writer
	context() context.Context
	// begin is called once all later changes are seen.
	begin() error
}

type watch struct {
	by    watchCaller
	out   *bufio.Writer
	file  *os.File
	fd    int
	root  string
	depth int
	top   *folder
	byWd  map[int]*folder
	scan  int
	*changes
	// Folders are found wherever they are, since events were missed.
	isRescan bool
	// Something has happened that cannot be reported in its order.
	isMissing bool
	// What was reported can be newer than events that have not been read.
	isAhead bool
	// When the first of the changes came.
	since time.Time
}

// takeWatch takes the place of a watch, which releaseWatch gives back.
func takeWatch() error {
	if openWatches.Add(1) <= mostWatches {
		return nil
	}
	releaseWatch()
	return &failure{"busy", fmt.Sprintf("%d folders are watched already; end one first", mostWatches)}
}

func releaseWatch() { openWatches.Add(-1) }

// followFolder watches a folder for one call.
func followFolder(s *stream, call watchCall) error {
	if err := takeWatch(); err != nil {
		return err
	}
	defer releaseWatch()
	return watchFolder(s, call)
}

// watchFolder reports what changes in a folder, until the caller has enough of it. The caller has the watch's place.
func watchFolder(by watchCaller, call watchCall) error {
	path, err := absolute(call.Path)
	if err != nil {
		return err
	}
	if call.Depth < 1 || call.Depth > mostDepth {
		return invalid("a depth is from 1 to %d", mostDepth)
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if errors.Is(err, syscall.EMFILE) {
		return errNoMoreInstances
	}
	if err != nil {
		return err
	}
	w := &watch{
		by: by, out: bufio.NewWriterSize(by, mostData), file: os.NewFile(uintptr(fd), "inotify"), fd: fd,
		root: path, depth: call.Depth, byWd: map[int]*folder{}, changes: newChanges(),
	}
	defer func() {
		w.file.Close()
		watchedFolders.Add(-int64(len(w.byWd)))
	}()
	stop := context.AfterFunc(by.context(), func() { w.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := w.rescan(); err != nil {
		return err
	}
	if err := by.begin(); err != nil {
		return err
	}
	err = w.run()
	switch {
	case errors.Is(err, errFolderGone):
		return w.end("folderGone")
	case errors.Is(err, errTooManyFolders), errors.Is(err, errNoMoreWatches):
		return w.end("tooManyFolders")
	}
	return err
}

func (w *watch) end(reason string) error {
	w.isMissing = false
	if err := w.reportAll(); err != nil {
		return err
	}
	return w.reportNow(watchEvent{Type: "ended", Reason: reason})
}

// run reads the kernel's events until the caller leaves. While a caller does not read, the kernel's queue fills, and
// an overflow is reported: no memory of this program grows.
func (w *watch) run() error {
	buffer := make([]byte, 64<<10)
	for {
		var until time.Time
		if !w.isEmpty() {
			until = w.since.Add(coalesceFor)
		}
		w.file.SetReadDeadline(until)
		// After the deadline is set: the end of the call sets one that is over.
		if w.by.context().Err() != nil {
			return errGone
		}
		count, err := w.file.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = w.drain(buffer)
			if err == nil {
				err = w.reportAll()
			}
		} else if err == nil {
			err = w.takeAll(buffer[:count])
		}
		if err != nil {
			return err
		}
	}
}

// drain takes what has come already. A scan may have found the same changes, and both are reported as one.
func (w *watch) drain(buffer []byte) error {
	for range mostReads {
		count, err := syscall.Read(w.fd, buffer)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			w.isAhead = false
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		}
		if err := w.takeAll(buffer[:count]); err != nil {
			return err
		}
	}
	w.isAhead = true
	return nil
}

func (w *watch) takeAll(events []byte) error {
	for len(events) >= syscall.SizeofInotifyEvent {
		head := (*syscall.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := syscall.SizeofInotifyEvent + int(head.Len)
		name, _, _ := bytes.Cut(events[syscall.SizeofInotifyEvent:end], []byte{0})
		if err := w.take(head, string(name)); err != nil {
			return err
		}
		events = events[end:]
	}
	return nil
}

func (w *watch) take(event *syscall.InotifyEvent, name string) error {
	mask := event.Mask
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		return w.overflow()
	}
	in := w.byWd[int(event.Wd)]
	switch {
	case in == nil:
		return nil
	case in == w.top && mask&endOfRoot != 0:
		return errFolderGone
	case mask&syscall.IN_IGNORED != 0:
		w.forgetFolder(in)
		return nil
	case name == "" || strings.HasPrefix(name, partPrefix):
		return nil
	}
	if w.isEmpty() {
		w.since = time.Now()
	}
	where, isFolder := place{in, name}, mask&syscall.IN_ISDIR != 0
	switch {
	case mask&syscall.IN_MOVED_TO != 0:
		if left := w.arrive(event.Cookie); left == nil {
			w.replaced(where, isFolder)
			return w.come(where, isFolder)
		} else if isFolder {
			return w.folderMoved(where, left)
		} else {
			w.movedTo(where, left)
		}
	case mask&syscall.IN_CREATE != 0:
		return w.come(where, isFolder)
	case mask&syscall.IN_MOVED_FROM != 0:
		w.movedFrom(where, event.Cookie, in.children[name], isFolder)
	case mask&syscall.IN_DELETE != 0:
		w.removed(where, isFolder)
		w.drop(in.children[name])
	default:
		w.changed(where, mask&syscall.IN_MODIFY != 0)
	}
	return w.reportIfFull()
}

// come takes what was made, or came from elsewhere.
func (w *watch) come(where place, isFolder bool) error {
	w.created(where, w.isAhead)
	if !isFolder {
		return w.reportIfFull()
	}
	return w.found(where, true)
}

// folderMoved reports a move at once, before the changes that are held: they are reported by the new path.
func (w *watch) folderMoved(where place, left *leaving) error {
	f := left.folder
	if f != nil && w.byWd[f.wd] != f {
		f = nil
	}
	from, to := left.in.pathOf(left.name), where.in.pathOf(where.name)
	if f == nil && left.in.depth < w.depth {
		left.isKnown = false
	}
	if !left.isKnown {
		// Its content is reported again, after what was at the new path.
		w.discard(from, anyChange)
		if f != nil {
			w.link(f, where.in, where.name)
		}
		w.replaced(where, true)
		return w.come(where, true)
	}
	if err := w.reportFolder(where.in); err != nil {
		return err
	}
	w.discard(to, anyChange)
	left.wasThere, left.lostFolder, left.mayHaveReplaced = false, false, false
	if one := w.byPlace[where]; one != nil {
		one.wasThere, one.isThere, one.lostFolder, one.origin = true, true, false, nil
	}
	moved := watchEvent{Type: "moved", Path: rawText(to), From: rawText(from), Entry: w.entryOf(to)}
	if err := w.report(moved); err != nil {
		return err
	}
	if f == nil || where.in.depth >= w.depth {
		w.drop(f)
		return w.found(where, true)
	}
	if !w.link(f, where.in, where.name) {
		return nil
	}
	if err := w.found(where, false); err != nil {
		return err
	}
	// At its new place, what is in it may lie too deep. If it has moved on, the next event says where to.
	if f.scan == w.scan {
		w.prune(f)
	}
	return nil
}

// reportFolder reports a new folder, and the new ones above it, before something is reported to have moved into it.
func (w *watch) reportFolder(f *folder) error {
	if f.parent == nil {
		return nil
	}
	if err := w.reportFolder(f.parent); err != nil {
		return err
	}
	one := w.byPlace[place{f.parent, f.name}]
	if one == nil || !one.isThere || (one.wasThere && !one.lostFolder) {
		return nil
	}
	path := f.pathOf("")
	if one.wasThere {
		w.discardLost(path)
		if err := w.report(watchEvent{Type: "removed", Path: rawText(path)}); err != nil {
			return err
		}
	}
	one.wasThere, one.lostFolder, one.origin = true, false, nil
	return w.report(watchEvent{Type: "created", Path: rawText(path), Entry: w.entryOf(path)})
}

// discardLost drops what has become of a folder that is no longer there, but not of the one in its place.
func (w *watch) discardLost(path string) {
	w.discard(path, func(one *change) bool { return w.byWd[one.in.wd] != one.in })
}

// reportIfFull bounds what is held.
func (w *watch) reportIfFull() error {
	if !w.isFull() {
		return nil
	}
	w.isAhead = true
	return w.reportAll()
}

// reportAll sends what has changed.
func (w *watch) reportAll() error {
	if w.isMissing {
		return w.overflow()
	}
	changed, left := w.changes.take()
	for _, one := range left {
		if f := one.folder; f != nil && f.scan == one.scan && f.parent == one.in && f.name == one.name {
			w.drop(f)
		}
	}
	for _, one := range changed {
		if err := w.reportOne(one); err != nil {
			return err
		}
	}
	w.since = time.Now()
	return w.out.Flush()
}

func (w *watch) reportOne(one *change) error {
	event := watchEvent{Type: one.kind(), Path: rawText(one.in.pathOf(one.name))}
	removed := watchEvent{Type: "removed", Path: event.Path}
	switch event.Type {
	case "":
		return nil
	case "removed":
		return w.report(event)
	case "moved":
		event.From = rawText(one.origin.in.pathOf(one.origin.name))
		removed.Path = event.From
	}
	event.Entry = w.entryOf(string(event.Path))
	event.OnlyAttributes = event.Type == "changed" && !one.isWritten
	switch {
	case event.Entry != nil && event.Type == "changed" && one.lostFolder:
		if err := w.report(removed); err != nil {
			return err
		}
		event.Type, event.OnlyAttributes = "created", false
	case event.Entry == nil && event.Type == "moved":
		one.origin = nil
		w.later(one)
		return w.report(removed)
	case event.Entry == nil:
		w.later(one)
		return nil
	}
	return w.report(event)
}

// later holds what is not there, though the kernel has not said that it has gone, until it has.
func (w *watch) later(one *change) {
	isWatched := w.byWd[one.in.wd] == one.in
	if !isWatched {
		return
	}
	one.held++
	if one.held > mostHeld {
		one.isThere = false
	}
	one.isReported = false
	w.hold(one)
}

func (w *watch) reportNow(event watchEvent) error {
	if err := w.report(event); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *watch) report(event watchEvent) error {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// entryOf returns what is at a path below the folder, if anything is.
func (w *watch) entryOf(below string) *entry {
	path := filepath.Join(w.root, below)
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	found := entryOf(path, info)
	found.Path = rawText(below)
	return &found
}
