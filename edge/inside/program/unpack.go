package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type unpackCall struct {
	Path rawText `json:"path"`
	// Fails if there is something at the path.
	IsNew bool `json:"isNew"`
}

// unpackInto unpacks a tar of the caller's data into a folder, which is made if it is not there. The archive is
// unpacked beside the files, and takes its place only when all of it has come.
func unpackInto(s *stream, call unpackCall) (any, error) {
	path, err := absolute(call.Path)
	if err != nil {
		return nil, err
	}
	end, err := beginArchive()
	if err != nil {
		return nil, err
	}
	defer end()
	isThere, nearest, err := nearestFolder(path)
	if err != nil {
		return nil, err
	}
	if isThere && call.IsNew {
		return nil, fs.ErrExist
	}
	// In the target itself, which need not lie in a folder that the user may write, nor on its volume.
	base, err := os.OpenFile(nearest, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	part := partName()
	if err := os.Mkdir(pathIn(base, part), 0o700); err != nil {
		return nil, err
	}
	defer removePart(pathIn(base, part))
	root, err := openIn(found{in: base, name: part}, syscall.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	u := &unpacker{folders: []*os.File{root}, made: map[string]*madeFolder{}, buffer: make([]byte, mostData)}
	defer u.close()
	if err := u.unpack(s); err != nil {
		return nil, err
	}
	if isThere {
		// While all that was unpacked can be read.
		if err := checkMerge(root, base, ""); err != nil {
			return nil, err
		}
	}
	if err := u.finish(); err != nil {
		return nil, err
	}
	if isThere {
		err = mergeInto(root, base)
	} else {
		err = moveFolder(pathIn(base, part), path)
	}
	if err != nil {
		return nil, err
	}
	return stat(rawText(path))
}

// nearestFolder finds the folder at a path, or the last one above it that is there.
func nearestFolder(path string) (isThere bool, nearest string, err error) {
	for nearest = path; ; nearest = filepath.Dir(nearest) {
		info, err := os.Stat(nearest)
		switch {
		case err == nil && info.IsDir():
			return nearest == path, nearest, nil
		case err == nil:
			return false, "", &failure{"notFolder", "it is no folder"}
		case !errors.Is(err, fs.ErrNotExist):
			return false, "", err
		}
		if _, err := os.Lstat(nearest); err == nil {
			return false, "", &failure{"notFound", "the link leads nowhere"}
		}
	}
}

// moveFolder gives a new folder its place. It fails if another one has come there first.
func moveFolder(part, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	return rename(part, path, false)
}

// madeFolder is one of the archive. It gets its permissions once all is in it.
type madeFolder struct {
	path     string
	mode     uint32
	modified time.Time
}

type unpacker struct {
	// The part folder, and those below it down to the last one that was used.
	folders []*os.File
	names   []string
	// Only those that have an entry: the caller bounds their number.
	made   map[string]*madeFolder
	buffer []byte
}

func (u *unpacker) close() {
	for _, folder := range u.folders {
		folder.Close()
	}
}

func (u *unpacker) unpack(s *stream) error {
	input := bufio.NewReaderSize(s, mostData)
	reader := tar.NewReader(input)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.entry(header, reader)
		}
		if errors.Is(err, tar.ErrHeader) {
			err = invalid("the archive cannot be read")
		}
		if err != nil {
			return err
		}
	}
	// The caller can still find that the archive is wrong.
	_, err := io.Copy(io.Discard, input)
	return err
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	path := strings.TrimSuffix(header.Name, "/")
	folder, name, err := u.parent(path)
	if err != nil {
		return err
	}
	mode := uint32(header.Mode & 0o777)
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.Mkdir(pathIn(folder, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return at(path, err)
		}
		u.made[path] = &madeFolder{path, mode, header.ModTime}
		return nil
	case tar.TypeReg:
		return at(path, u.file(folder, name, mode, header.ModTime, content))
	case tar.TypeSymlink:
		err = os.Symlink(header.Linkname, pathIn(folder, name))
	case tar.TypeLink:
		err = u.link(header.Linkname, pathIn(folder, name))
	default:
		return at(path, invalid("it is no file, folder or link"))
	}
	if err == nil {
		err = setTime(folder, name, header.ModTime)
	}
	return at(path, err)
}

// parent opens the folder of a path, and makes it if it is not there. It follows no links.
func (u *unpacker) parent(path string) (*os.File, string, error) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return nil, "", at(path, invalid("it is no plain path"))
		}
	}
	last := len(parts) - 1
	folder, err := u.open(parts[:last])
	return folder, parts[last], at(path, err)
}

func (u *unpacker) open(parts []string) (*os.File, error) {
	same := 0
	for same < len(parts) && same < len(u.names) && parts[same] == u.names[same] {
		same++
	}
	for _, folder := range u.folders[same+1:] {
		folder.Close()
	}
	u.folders, u.names = u.folders[:same+1], u.names[:same]
	for _, part := range parts[same:] {
		above := u.folders[len(u.folders)-1]
		folder, err := openIn(found{in: above, name: part}, syscall.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			folder, err = makeIn(above, part)
		}
		if err != nil {
			return nil, err
		}
		u.folders, u.names = append(u.folders, folder), append(u.names, part)
	}
	return u.folders[len(u.folders)-1], nil
}

// makeIn makes a folder that has no entry of its own, or not yet.
func makeIn(above *os.File, name string) (*os.File, error) {
	if err := os.Mkdir(pathIn(above, name), 0o700); err != nil {
		return nil, err
	}
	folder, err := openIn(found{in: above, name: name}, syscall.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	if err := syscall.Fchmod(int(folder.Fd()), 0o755); err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

func (u *unpacker) file(folder *os.File, name string, mode uint32, modified time.Time, content io.Reader) error {
	const flags = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := syscall.Openat(int(folder.Fd()), name, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		// The archive has it twice.
		if err = syscall.Unlink(pathIn(folder, name)); err == nil {
			fd, err = syscall.Openat(int(folder.Fd()), name, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{content}, u.buffer)
	if err == nil {
		err = syscall.Fchmod(fd, mode)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = setTime(folder, name, modified)
	}
	return err
}

// link makes another name of a file that the archive has had.
func (u *unpacker) link(target, path string) error {
	other := &unpacker{folders: []*os.File{u.folders[0]}, made: u.made}
	defer func() {
		other.folders = other.folders[1:]
		other.close()
	}()
	folder, name, err := other.parent(target)
	if err != nil {
		return err
	}
	return os.Link(pathIn(folder, name), path)
}

// finish gives the folders their permissions and times, each before the one that it lies in.
func (u *unpacker) finish() error {
	order := slices.SortedFunc(maps.Values(u.made), func(one, other *madeFolder) int {
		// Paths in which a slash comes before all other bytes, the last one first.
		return slices.CompareFunc(strings.Split(other.path, "/"), strings.Split(one.path, "/"), strings.Compare)
	})
	for _, made := range order {
		parts := strings.Split(made.path, "/")
		folder, err := u.open(parts)
		if err == nil {
			err = syscall.Fchmod(int(folder.Fd()), made.mode)
		}
		if err == nil && !made.modified.IsZero() {
			err = setTime(u.folders[len(parts)-1], parts[len(parts)-1], made.modified)
		}
		if err != nil {
			return at(made.path, err)
		}
	}
	return nil
}

// setTime sets when something was modified; of a link, and not of what it leads to.
func setTime(folder *os.File, name string, modified time.Time) error {
	const omit, noFollow = 1<<30 - 2, 0x100
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	times := [2]syscall.Timespec{{Nsec: omit}, {Sec: modified.Unix(), Nsec: int64(modified.Nanosecond())}}
	_, _, number := syscall.Syscall6(syscall.SYS_UTIMENSAT, folder.Fd(), uintptr(unsafe.Pointer(text)),
		uintptr(unsafe.Pointer(&times)), noFollow, 0, 0)
	if number != 0 {
		return number
	}
	return nil
}

// removePart removes what was not used, also folders that their permissions protect.
func removePart(part string) {
	_ = filepath.WalkDir(part, func(path string, one fs.DirEntry, err error) error {
		if err == nil && one.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(part)
}
