package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// entry is how callers see a file, a folder or something else.
type entry struct {
	Path rawText `json:"path"`
	// file, directory, symlink or other: a device, a pipe, a socket.
	Type       string `json:"type"`
	Size       int64  `json:"size"`
	Mode       string `json:"mode"`
	ModifiedAt string `json:"modifiedAt"`
	Uid        uint32 `json:"uid"`
	Gid        uint32 `json:"gid"`
	// Where a link leads.
	Target rawText `json:"target,omitempty"`
	// Differs once the content has changed. Only of files.
	Etag string `json:"etag,omitempty"`
	// Only for calls that ask for them.
	*details
}

type pathCall struct {
	Path rawText `json:"path"`
	// Whether the answer has the details of the entry.
	Details bool `json:"details"`
}

type readCall struct {
	Path   rawText `json:"path"`
	Offset int64   `json:"offset"`
	// Bytes that are wanted; all that follow without it.
	Length *int64 `json:"length"`
	// The whole file is sent if it has another one than this.
	IfEtag string `json:"ifEtag"`
}

type writeCall struct {
	Path rawText `json:"path"`
	// In octal digits. Without it the mode of the file that is replaced, or 0644.
	Mode string `json:"mode"`
	// Fails if there is a file.
	IsNew bool `json:"isNew"`
}

type modeCall struct {
	Path rawText `json:"path"`
	Mode string  `json:"mode"`
	// Fails if there is a folder that is to be made.
	IsNew   bool `json:"isNew"`
	Details bool `json:"details"`
}

type moveCall struct {
	Path rawText `json:"path"`
	To   rawText `json:"to"`
	// Whether a file that is there is replaced.
	Replace bool `json:"replace"`
	Details bool `json:"details"`
}

type removeCall struct {
	Path      rawText `json:"path"`
	Recursive bool    `json:"recursive"`
}

func entryOf(path string, info fs.FileInfo) entry {
	status, _ := info.Sys().(*syscall.Stat_t)
	e := entry{
		Path: rawText(path), Type: typeOf(info.Mode()), Size: info.Size(), Mode: fmt.Sprintf("%04o", status.Mode&0o7777),
		ModifiedAt: timeText(info.ModTime()), Uid: status.Uid, Gid: status.Gid,
	}
	switch e.Type {
	case "file":
		// The time of a change cannot be set, unlike that of the content. It also changes with the permissions.
		e.Etag = fmt.Sprintf("%x-%x-%x-%x", status.Dev, status.Ino, info.Size(), status.Ctim.Nano())
	case "symlink":
		target, _ := os.Readlink(path)
		e.Target = rawText(target)
	case "directory":
		e.Size = 0
	}
	return e
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// absolute refuses what is no path from the root, or from the user's home: that begins with ~.
func absolute(path rawText) (string, error) {
	text := string(path)
	if text == "~" || strings.HasPrefix(text, "~/") {
		text = filepath.Join(homeFolder(), text[1:])
	}
	if !strings.HasPrefix(text, "/") {
		return "", invalid("a path begins with a slash")
	}
	return filepath.Clean(text), nil
}

func stat(asked rawText) (*entry, error) {
	path, err := absolute(asked)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	found := entryOf(path, info)
	return &found, nil
}

type readAnswer struct {
	entry
	Offset int64 `json:"offset"`
	// Bytes that follow; unknown for files of the kernel, which have no size.
	Length *int64 `json:"length,omitempty"`
}

// readFile sends a file, or a part of it.
func readFile(s *stream, call readCall) error {
	path, err := absolute(call.Path)
	if err != nil {
		return err
	}
	// The opening of a pipe would wait for somebody who writes.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if !info.Mode().IsRegular() {
		return &failure{"notFile", "it is no file but a device, a pipe or a socket"}
	}
	answer := readAnswer{entry: entryOf(path, info), Offset: call.Offset}
	wanted := call.Length
	if call.IfEtag != "" && call.IfEtag != answer.Etag {
		answer.Offset, wanted = 0, nil
	}
	if info.Size() == 0 && answer.Offset == 0 && wanted == nil {
		if err := s.answer(answer); err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{file}, make([]byte, mostData))
		return err
	}
	if answer.Offset < 0 {
		answer.Offset = max(0, info.Size()+answer.Offset)
	}
	if answer.Offset > info.Size() || (answer.Offset == info.Size() && info.Size() > 0) {
		return &failure{"noRange", fmt.Sprintf("the file has %d bytes", info.Size())}
	}
	left := info.Size() - answer.Offset
	if wanted != nil && *wanted < left {
		left = *wanted
	}
	answer.Length = &left
	if err := s.answer(answer); err != nil {
		return err
	}
	part := io.NewSectionReader(file, answer.Offset, left)
	sent, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{part}, make([]byte, mostData))
	if err == nil && sent < left {
		return &failure{"changed", "the file has become shorter while it was read"}
	}
	return err
}

// writeFile makes a file of the caller's data. It is there as a whole or not at all.
func writeFile(s *stream, call writeCall) (any, error) {
	path, err := absolute(call.Path)
	if err != nil {
		return nil, err
	}
	mode, err := modeOf(call.Mode)
	if err != nil {
		return nil, err
	}
	before, err := os.Lstat(path)
	if err == nil && before.Mode()&fs.ModeSymlink != 0 {
		// The file at the end of the link is replaced, and not the link.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			before, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &failure{"notFound", "it is a link that leads nowhere"}
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case err == nil && before.IsDir():
		return nil, syscall.EISDIR
	case err == nil && !before.Mode().IsRegular():
		return nil, &failure{"notFile", "a device, a pipe or a socket is there"}
	case err == nil && call.IsNew:
		return nil, fs.ErrExist
	case err == nil && mode == nil:
		kept := before.Mode().Perm()
		mode = &kept
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if path == "/" {
		return nil, syscall.EISDIR
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	part := filepath.Join(filepath.Dir(path), partName())
	if mode == nil {
		usual := fs.FileMode(0o644)
		mode = &usual
	}
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer os.Remove(part)
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{s}, make([]byte, mostData))
	if err == nil {
		err = syscall.Fchmod(int(file.Fd()), uint32(*mode))
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	if call.IsNew {
		err = os.Link(part, path)
		// The loss of a name changes the file's ETag.
		os.Remove(part)
	} else {
		err = os.Rename(part, path)
	}
	if err != nil {
		return nil, err
	}
	return stat(rawText(path))
}

// Of a file until it is whole.
const partPrefix = ".tenancy-part-"

func partName() string {
	var random [8]byte
	rand.Read(random[:])
	return partPrefix + hex.EncodeToString(random[:])
}

// modeOf reads octal digits. No digits are no mode.
func modeOf(text string) (*fs.FileMode, error) {
	if text == "" {
		return nil, nil
	}
	var number uint32
	if _, err := fmt.Sscanf(text, "%o", &number); err != nil || number > 0o7777 {
		return nil, invalid("a mode has up to four octal digits")
	}
	mode := fs.FileMode(number)
	return &mode, nil
}

// placeOf checks a call about a path and its permissions.
func placeOf(call modeCall) (string, *fs.FileMode, error) {
	path, err := absolute(call.Path)
	if err != nil {
		return "", nil, err
	}
	mode, err := modeOf(call.Mode)
	return path, mode, err
}

// makeFolder makes a folder and those above it. One that is there stays.
func makeFolder(call modeCall) (*entry, error) {
	path, mode, err := placeOf(call)
	if err != nil {
		return nil, err
	}
	_, before := os.Lstat(path)
	if call.IsNew && before == nil {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return nil, syscall.ENOTDIR
		}
		return nil, fs.ErrExist
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		// The system's error is the one of a parent that is no folder.
		if info, is := os.Stat(path); is == nil && !info.IsDir() {
			return nil, fs.ErrExist
		}
		return nil, err
	}
	if mode != nil && errors.Is(before, fs.ErrNotExist) {
		if err := syscall.Chmod(path, uint32(*mode)); err != nil {
			return nil, err
		}
	}
	return stat(rawText(path))
}

func setMode(call modeCall) (any, error) {
	path, mode, err := placeOf(call)
	if err != nil {
		return nil, err
	}
	if mode == nil {
		return nil, invalid("a mode has up to four octal digits")
	}
	if err := syscall.Chmod(path, uint32(*mode)); err != nil {
		return nil, err
	}
	return stat(rawText(path))
}

// move renames. A file whose new place is on another volume is copied; a folder is not, since that takes long and can
// fail halfway.
func move(call moveCall) (*entry, error) {
	from, err := absolute(call.Path)
	if err != nil {
		return nil, err
	}
	to, err := absolute(call.To)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return nil, err
	}
	err = rename(from, to, call.Replace)
	if errors.Is(err, syscall.EXDEV) && info.Mode().IsRegular() {
		err = copyThenRemove(from, to, info, call.Replace)
	}
	if err != nil {
		return nil, err
	}
	return stat(rawText(to))
}

func rename(from, to string, replace bool) error {
	if replace {
		return os.Rename(from, to)
	}
	const here, noReplace = -100, 1
	first, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	second, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	folder := here
	_, _, number := syscall.Syscall6(sysRenameat2, uintptr(folder), uintptr(unsafe.Pointer(first)), uintptr(folder),
		uintptr(unsafe.Pointer(second)), noReplace, 0)
	switch number {
	case 0:
		return nil
	case syscall.EINVAL, syscall.ENOSYS:
		// This file system cannot do it in one step.
		if _, err := os.Lstat(to); err == nil {
			return fs.ErrExist
		}
		return os.Rename(from, to)
	}
	return number
}

func copyThenRemove(from, to string, info fs.FileInfo, replace bool) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	part := filepath.Join(filepath.Dir(to), partName())
	target, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Chmod(info.Mode().Perm())
	}
	if closing := target.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Chtimes(part, time.Time{}, info.ModTime())
	}
	if err == nil {
		err = rename(part, to, replace)
	}
	if err != nil {
		return err
	}
	return os.Remove(from)
}

// remove follows no link: os.RemoveAll holds the folders that it empties, so that one which is replaced by a link
// while it works leads it nowhere else.
func remove(call removeCall) error {
	path, err := absolute(call.Path)
	if err != nil {
		return err
	}
	if path == "/" {
		return invalid("the root cannot be removed")
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() && call.Recursive {
		return os.RemoveAll(path)
	}
	if info.IsDir() {
		return syscall.Rmdir(path)
	}
	return syscall.Unlink(path)
}
