package main

import (
	"container/heap"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const mostDepth = 64

type listCall struct {
	Path rawText `json:"path"`
	// The path below the folder after which the page begins.
	After rawText `json:"after"`
	Limit int     `json:"limit"`
	// How many folders deep; 1 is the folder itself.
	Depth   int  `json:"depth"`
	Details bool `json:"details"`
}

// listFolder sends a page of a folder's entries, each as a line of JSON, by their names, each folder before what is in
// it. Paths are those below the folder.
func listFolder(s *stream, call listCall) error {
	path, err := absolute(call.Path)
	if err != nil {
		return err
	}
	if call.Limit < 1 || call.Depth < 1 || call.Depth > mostDepth {
		return invalid("a page has at least one entry, and a depth from 1 to %d", mostDepth)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &failure{"notFolder", "it is no folder"}
	}
	walk := &folderWalk{s: s, root: path, left: call.Limit, details: call.Details}
	var after []string
	if call.After != "" {
		after = strings.Split(string(call.After), "/")
	}
	// A folder that cannot be read is told before anything is sent.
	first, err := namesAfter(path, first(after), call.Limit+1)
	if err != nil {
		return err
	}
	if err := s.answer(map[string]rawText{"root": rawText(path)}); err != nil {
		return err
	}
	if err := walk.folder("", first, after, call.Depth); err != nil && !errors.Is(err, errFull) {
		return err
	}
	return sendLine(s, map[string]bool{"isCut": walk.isCut})
}

// errFull ends a walk whose page is full.
var errFull = errors.New("the page is full")

type folderWalk struct {
	s     *stream
	root  string
	left  int
	isCut bool
	// Whether each entry has its details.
	details bool
}

// folder sends the entries after a path in a folder, whose first names are known.
func (w *folderWalk) folder(below string, names []string, after []string, depth int) error {
	begin := first(after)
	for {
		for _, name := range names {
			// Only the folder in which the page before ended has a part that is done.
			isStart := len(after) > 0 && name == after[0]
			var inside []string
			if isStart {
				inside = after[1:]
			}
			if err := w.one(filepath.Join(below, name), isStart, inside, depth); err != nil {
				return err
			}
			begin = name
		}
		if len(names) == 0 {
			return nil
		}
		var err error
		// What begins the page is done: the names after it are wanted.
		names, err = namesAfter(filepath.Join(w.root, below), begin+"\x00", w.left+1)
		if err != nil {
			return nil
		}
		after = nil
	}
}

// one sends an entry, unless the page before ended with it or in it, and then what is in it.
func (w *folderWalk) one(below string, isStart bool, after []string, depth int) error {
	path := filepath.Join(w.root, below)
	info, err := os.Lstat(path)
	if err != nil {
		// It has gone since its folder was read.
		return nil
	}
	if !isStart {
		if w.left == 0 {
			w.isCut = true
			return errFull
		}
		found := entryOf(path, info)
		if w.details {
			found.details = detailsOf(path, info)
		}
		found.Path = rawText(below)
		if err := sendLine(w.s, found); err != nil {
			return err
		}
		w.left--
	}
	if !info.IsDir() || depth <= 1 {
		return nil
	}
	names, err := namesAfter(path, first(after), w.left+1)
	if err != nil {
		// One that may not be read is shown without its content.
		return nil
	}
	return w.folder(below, names, after, depth-1)
}

func first(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return parts[0]
}

// namesAfter returns the first names of a folder from one on, in their order. It holds no more than it returns, however
// many there are.
func namesAfter(path, from string, most int) ([]string, error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	found := &lastFirst{}
	for {
		names, err := folder.Readdirnames(1024)
		for _, name := range names {
			if name < from || strings.HasPrefix(name, partPrefix) {
				continue
			}
			if found.Len() < most {
				heap.Push(found, name)
			} else if name < (*found)[0] {
				(*found)[0] = name
				heap.Fix(found, 0)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			var known *fs.PathError
			if errors.As(err, &known) {
				return nil, known.Err
			}
			return nil, err
		}
	}
	sorted := make([]string, found.Len())
	for index := len(sorted) - 1; index >= 0; index-- {
		sorted[index] = heap.Pop(found).(string)
	}
	return sorted, nil
}

// lastFirst is a heap with the last name on top.
type lastFirst []string

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(a, b int) bool { return h[a] > h[b] }
func (h lastFirst) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *lastFirst) Push(name any)     { *h = append(*h, name.(string)) }
func (h *lastFirst) Pop() any {
	last := len(*h) - 1
	name := (*h)[last]
	*h = (*h)[:last]
	return name
}
