package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Of /etc/passwd and /etc/group: so much is read of them.
const mostNames = 1 << 20

// details are what some callers show of an entry beside the rest.
type details struct {
	Owner string `json:"owner"`
	Group string `json:"group"`
	// Where a link leads in the end; absent if it leads nowhere.
	LeadsTo *leadsTo `json:"leadsTo,omitempty"`
}

type leadsTo struct {
	Path rawText `json:"path"`
	Type string  `json:"type"`
	Mode string  `json:"mode"`
}

// detailed adds the details to a call's answer, if they are asked for.
func detailed(isAsked bool) func(*entry, error) (any, error) {
	return func(found *entry, err error) (any, error) {
		if err != nil || !isAsked {
			return found, err
		}
		path := string(found.Path)
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		found.details = detailsOf(path, info)
		return found, nil
	}
}

func detailsOf(path string, info fs.FileInfo) *details {
	status, _ := info.Sys().(*syscall.Stat_t)
	d := &details{Owner: userNames.of(status.Uid), Group: groupNames.of(status.Gid)}
	if info.Mode()&fs.ModeSymlink == 0 {
		return d
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return d
	}
	if found, err := stat(rawText(target)); err == nil {
		d.LeadsTo = &leadsTo{found.Path, found.Type, found.Mode}
	}
	return d
}

// names reads the names of users or groups again when their file has changed.
type names struct {
	path string

	mu       sync.Mutex
	byId     map[string]string
	size     int64
	modified time.Time
}

var userNames, groupNames = &names{path: "/etc/passwd"}, &names{path: "/etc/group"}

// of returns the name of an id, or its number without one.
func (n *names) of(id uint32) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := strconv.FormatUint(uint64(id), 10)
	info, err := os.Stat(n.path)
	if err != nil || !info.Mode().IsRegular() {
		return number
	}
	if n.byId == nil || info.Size() != n.size || !info.ModTime().Equal(n.modified) {
		n.byId, n.size, n.modified = readNames(n.path), info.Size(), info.ModTime()
	}
	if name, isKnown := n.byId[number]; isKnown {
		return name
	}
	return number
}

func readNames(path string) map[string]string {
	byId := map[string]string{}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return byId
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, mostNames))
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Split(line, ":")
		if len(fields) < 3 || fields[0] == "" {
			continue
		}
		if _, isKnown := byId[fields[2]]; !isKnown {
			byId[fields[2]] = fields[0]
		}
	}
	return byId
}

type userAnswer struct {
	Uid  int     `json:"uid"`
	Name string  `json:"name"`
	Home rawText `json:"home"`
}

// ownUser is the workload's user.
func ownUser() userAnswer {
	return userAnswer{os.Getuid(), userNames.of(uint32(os.Getuid())), rawText(homeFolder())}
}

// homeFolder is where relative paths begin: the home of E2B's images, or the folder that the image or the workload
// names, or the user's home.
func homeFolder() string {
	for _, folder := range []string{"/home/user", ownFolder, os.Getenv("HOME")} {
		if folder == "/" || !filepath.IsAbs(folder) {
			continue
		}
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
	}
	return "/"
}
