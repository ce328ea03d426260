package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is one that is watched.
type folder struct {
	wd       int
	parent   *folder
	name     string
	children map[string]*folder
	// 1 for the folder that the call names.
	depth int
	// The scan that has found it last.
	scan int
}

// pathOf returns a path in the folder, below the one that the call names.
func (f *folder) pathOf(name string) string {
	for ; f.parent != nil; f = f.parent {
		name = f.name + "/" + name
	}
	return strings.TrimSuffix(name, "/")
}

// found watches a folder that has come.
func (w *watch) found(where place, isNew bool) error {
	if where.in.depth >= w.depth {
		return nil
	}
	w.scan++
	return w.add(where.in, where.name, isNew)
}

// overflow reports that changes were missed, and finds the folders among them.
func (w *watch) overflow() error {
	w.changes, w.isMissing, w.isAhead = newChanges(), false, false
	if err := w.reportNow(watchEvent{Type: "overflow"}); err != nil {
		return err
	}
	err := w.rescan()
	var known *failure
	if err != nil && !errors.As(err, &known) {
		return errFolderGone
	}
	return err
}

// rescan watches the folder and all in it.
func (w *watch) rescan() error {
	w.scan++
	w.isRescan = true
	defer func() { w.isRescan = false }()
	before := w.top
	if err := w.add(nil, "", false); err != nil {
		return err
	}
	if before != nil && before != w.top {
		return errFolderGone
	}
	w.prune(w.top)
	return nil
}

// add watches a folder and those in it. If it is new to the caller, what is in it is reported: it was made before this
// began. The watch comes first, so that nothing is missed.
func (w *watch) add(parent *folder, name string, isNew bool) error {
	if w.by.context().Err() != nil {
		return errGone
	}
	path, flags := w.root, uint32(watchedEvents)
	if parent != nil {
		path, flags = filepath.Join(w.root, parent.pathOf(name)), flags|syscall.IN_DONT_FOLLOW
	}
	wd, err := syscall.InotifyAddWatch(w.fd, path, flags)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return errNoMoreWatches
	case err != nil && parent == nil:
		return err
	case err != nil:
		// It has gone, is no folder any more, or may not be read.
		return nil
	}
	f := w.byWd[wd]
	if f == nil {
		if watchedFolders.Add(1) > mostWatchedFolders {
			watchedFolders.Add(-1)
			return errTooManyFolders
		}
		f = &folder{wd: wd, children: map[string]*folder{}}
		w.byWd[wd] = f
		// It came into a folder that was moved before this could watch it.
		isNew = isNew || !w.isRescan
	} else if f.scan == w.scan {
		// A folder can be in two places, by a mount.
		return nil
	} else if !w.isRescan && (f.parent != parent || f.name != name) {
		// It has moved on: which of its changes the caller knows is not clear any more.
		w.isMissing = true
	}
	f.scan = w.scan
	if !w.link(f, parent, name) {
		return nil
	}
	if !isNew && f.depth >= w.depth {
		return nil
	}
	return w.read(f, path, isNew)
}

// link puts a folder in its place. It fails for a folder that lies in itself: it or its new place has moved on.
func (w *watch) link(f, parent *folder, name string) bool {
	for above := parent; above != nil; above = above.parent {
		if above == f {
			w.isMissing = true
			return false
		}
	}
	if f.parent != nil && f.parent.children[f.name] == f {
		delete(f.parent.children, f.name)
	}
	f.parent, f.name, f.depth = parent, name, 1
	if parent == nil {
		w.top = f
		return true
	}
	f.depth = parent.depth + 1
	if other := parent.children[name]; other != nil && other != f {
		w.drop(other)
	}
	parent.children[name] = f
	return true
}

func (w *watch) read(f *folder, path string, isNew bool) error {
	flags := os.O_RDONLY | syscall.O_DIRECTORY
	if f.parent != nil {
		flags |= syscall.O_NOFOLLOW
	}
	open, err := os.OpenFile(path, flags, 0)
	if err != nil {
		if f.parent == nil {
			return err
		}
		return nil
	}
	defer open.Close()
	for {
		found, err := open.ReadDir(256)
		for _, one := range found {
			name := one.Name()
			if strings.HasPrefix(name, partPrefix) {
				continue
			}
			if isNew {
				w.created(place{f, name}, w.isAhead)
				if err := w.reportIfFull(); err != nil {
					return err
				}
			}
			if one.IsDir() && f.depth < w.depth {
				if err := w.add(f, name, isNew); err != nil {
					return err
				}
			}
		}
		if err != nil {
			// The folder was removed while it was read.
			return nil
		}
	}
}

// prune drops the folders below one that the last scan has not found.
func (w *watch) prune(f *folder) {
	if f == nil {
		return
	}
	for _, child := range f.children {
		if child.scan != w.scan {
			w.drop(child)
		} else {
			w.prune(child)
		}
	}
}

// drop ends the watch of a folder and of those in it.
func (w *watch) drop(f *folder) {
	if f == nil {
		return
	}
	// It fails if the folder has gone, which ends its watch.
	_, _ = syscall.InotifyRmWatch(w.fd, uint32(f.wd))
	for _, child := range f.children {
		w.drop(child)
	}
	w.forgetFolder(f)
}

func (w *watch) forgetFolder(f *folder) {
	if w.byWd[f.wd] != f {
		return
	}
	delete(w.byWd, f.wd)
	watchedFolders.Add(-1)
	if f.parent != nil && f.parent.children[f.name] == f {
		delete(f.parent.children, f.name)
	}
}
