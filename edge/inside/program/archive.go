package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Each takes about 2 MiB of the pod's memory.
	mostArchives = 4
	// A folder is open for each part of a path.
	mostArchiveDepth = 128
	mostArchivePath  = 4096
)

// Archives that are packed and unpacked now.
var openArchives atomic.Int64

func beginArchive() (end func(), err error) {
	end = func() { openArchives.Add(-1) }
	if openArchives.Add(1) > mostArchives {
		end()
		return nil, &failure{"busy", fmt.Sprintf("%d archives are packed or unpacked already; try again", mostArchives)}
	}
	return end, nil
}

// archiveFolder sends what is in a folder as a tar.gz, with names below the folder. Links stay links, hard links become
// files; devices, pipes and sockets are left out. It is in GNU's format, which every tar reads, busybox's too.
//
// Of a file that grows while it is read, the archive has the size of before. One that shrinks breaks the archive off.
func archiveFolder(s *stream, call pathCall) error {
	path, err := absolute(call.Path)
	if err != nil {
		return err
	}
	end, err := beginArchive()
	if err != nil {
		return err
	}
	defer end()
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer folder.Close()
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	// What the user may not read is said before anything is sent.
	if err := walkFolder(folder, walked{s: s, visit: checkReadable}); err != nil {
		return err
	}
	if _, err := folder.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := s.answer(entryOf(path, info)); err != nil {
		return err
	}
	out := bufio.NewWriterSize(s, mostData)
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	p := &packer{tar: tar.NewWriter(zip), buffer: make([]byte, mostData)}
	if err := walkFolder(folder, walked{s: s, visit: p.pack}); err != nil {
		return err
	}
	if err := p.tar.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// found is a name in a folder that is open.
type found struct {
	in   *os.File
	name string
	// Below the folder in which the walk began.
	path string
	info fs.FileInfo
}

type walked struct {
	s     *stream
	visit func(found) error
	path  string
	depth int
}

// walkFolder visits all that is in a folder, each folder before what is in it, and follows no links. It holds the
// folders open, so that one which is replaced by a link leads it nowhere else.
func walkFolder(folder *os.File, w walked) error {
	if w.depth >= mostArchiveDepth {
		return at(w.path, &failure{"tooDeep", fmt.Sprintf("it lies more than %d folders deep", mostArchiveDepth)})
	}
	return eachName(folder, w.path, func(name string) error {
		return walkTo(found{in: folder, name: name, path: joined(w.path, name)}, w)
	})
}

// eachName reads an open folder in pieces, from where it was read to. Its path is only for errors.
func eachName(folder *os.File, path string, do func(name string) error) error {
	for {
		names, err := folder.Readdirnames(256)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return at(path, err)
		}
	}
}

func walkTo(one found, w walked) error {
	if w.s.ctx.Err() != nil {
		return errGone
	}
	if strings.HasPrefix(one.name, partPrefix) {
		return nil
	}
	if len(one.path) > mostArchivePath {
		return at(one.path, &failure{"tooLarge", fmt.Sprintf("its path has more than %d bytes", mostArchivePath)})
	}
	info, err := os.Lstat(pathIn(one.in, one.name))
	if errors.Is(err, fs.ErrNotExist) {
		// It has gone since its folder was read.
		return nil
	}
	if err != nil {
		return at(one.path, err)
	}
	one.info = info
	if err := w.visit(one); err != nil || !info.IsDir() {
		return err
	}
	folder, err := openIn(one, syscall.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return at(one.path, err)
	}
	defer folder.Close()
	return walkFolder(folder, walked{s: w.s, visit: w.visit, path: one.path, depth: w.depth + 1})
}

func joined(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

// pathIn names something in a folder that is open, wherever that is now.
func pathIn(folder *os.File, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(folder.Fd())) + "/" + name
}

func openIn(one found, flags int) (*os.File, error) {
	// The opening of a pipe would wait for a writer.
	flags |= syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_CLOEXEC
	fd, err := syscall.Openat(int(one.in.Fd()), one.name, flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), one.name), nil
}

// at says which path an error is about.
func at(path string, err error) error {
	if err == nil || path == "" || errors.Is(err, errGone) {
		return err
	}
	known := asFailure(err)
	return &failure{known.Code, fmt.Sprintf("%s: %s", path[:min(len(path), 200)], known.Message)}
}

func checkReadable(one found) error {
	if !one.info.Mode().IsRegular() {
		return nil
	}
	const readable = 4
	if err := syscall.Faccessat(int(one.in.Fd()), one.name, readable, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return at(one.path, err)
	}
	return nil
}

type packer struct {
	tar    *tar.Writer
	buffer []byte
}

func (p *packer) pack(one found) error {
	header := headerOf(one.path, one.info)
	switch {
	case one.info.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case one.info.Mode().IsRegular():
		return p.packFile(one)
	case one.info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(pathIn(one.in, one.name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return at(one.path, err)
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
	default:
		return nil
	}
	return at(one.path, p.tar.WriteHeader(header))
}

func headerOf(path string, info fs.FileInfo) *tar.Header {
	status, _ := info.Sys().(*syscall.Stat_t)
	// Not every tar reads a time before 1970.
	modified := time.Unix(max(0, info.ModTime().Unix()), 0)
	return &tar.Header{
		Name: path, Mode: int64(status.Mode & 0o7777), Uid: int(status.Uid), Gid: int(status.Gid), ModTime: modified,
		Format: tar.FormatGNU,
	}
}

func (p *packer) packFile(one found) error {
	file, err := openIn(one, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return at(one.path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return at(one.path, err)
	}
	if !info.Mode().IsRegular() {
		return at(one.path, &failure{"changed", "it was replaced while the folder was read"})
	}
	header := headerOf(one.path, info)
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := p.tar.WriteHeader(header); err != nil {
		return at(one.path, err)
	}
	left := io.LimitReader(file, info.Size())
	sent, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, struct{ io.Reader }{left}, p.buffer)
	if err != nil {
		return at(one.path, err)
	}
	if sent < info.Size() {
		return at(one.path, &failure{"changed", "it has become shorter while it was read"})
	}
	return nil
}
