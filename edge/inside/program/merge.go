package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// checkMerge refuses what cannot be merged into a folder, before anything in it is changed.
func checkMerge(part, target *os.File, path string) error {
	const writable, searchable = 2, 1
	if err := syscall.Access(pathIn(target, "."), writable|searchable); err != nil {
		return at(path, err)
	}
	if err := requireSameVolume(part, target); err != nil {
		return at(path, err)
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return eachName(part, path, func(name string) error {
		below := joined(path, name)
		info, err := os.Lstat(pathIn(part, name))
		if err != nil {
			return at(below, err)
		}
		there, err := os.Lstat(pathIn(target, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return at(below, err)
		}
		return checkReplace(found{part, name, below, info}, target, there)
	})
}

func checkReplace(one found, target *os.File, there fs.FileInfo) error {
	switch {
	case one.info.IsDir() && there.IsDir():
		return both(one, target, func(part, target *os.File) error { return checkMerge(part, target, one.path) })
	case there.IsDir():
		return at(one.path, &failure{"isFolder", "a folder is there, and the archive has none"})
	case one.info.IsDir() && there.Mode()&fs.ModeSymlink == 0:
		return at(one.path, &failure{"notFolder", "no folder is there, and the archive has one"})
	}
	return nil
}

// both opens two folders of one name, and follows no links.
func both(one found, target *os.File, do func(part, target *os.File) error) error {
	part, err := openIn(one, syscall.O_DIRECTORY)
	if err != nil {
		return at(one.path, err)
	}
	defer part.Close()
	there, err := openIn(found{in: target, name: one.name}, syscall.O_DIRECTORY)
	if err != nil {
		return at(one.path, err)
	}
	defer there.Close()
	return do(part, there)
}

func requireSameVolume(one, other *os.File) error {
	var first, second syscall.Stat_t
	if err := syscall.Fstat(int(one.Fd()), &first); err != nil {
		return err
	}
	if err := syscall.Fstat(int(other.Fd()), &second); err != nil {
		return err
	}
	if first.Dev != second.Dev {
		return &failure{"otherVolume", "it is on another volume: unpack into it"}
	}
	return nil
}

// mergeInto moves what was unpacked into a folder. Each file is there as a whole or not at all.
func mergeInto(part, target *os.File) error {
	err := merge(part, target, "")
	if err == nil {
		return nil
	}
	known := asFailure(err)
	return &failure{known.Code, fmt.Sprintf("%s; a part of the archive is there already", known.Message)}
}

// merge holds both folders open, so that one which is replaced by a link leads it nowhere else.
func merge(part, target *os.File, path string) error {
	for {
		if _, err := part.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := part.Readdirnames(256)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return at(path, err)
		}
		for _, name := range names {
			below := joined(path, name)
			info, err := os.Lstat(pathIn(part, name))
			if err != nil {
				return at(below, err)
			}
			if err := mergeOne(found{part, name, below, info}, target); err != nil {
				return err
			}
		}
	}
}

// mergeOne moves a file, or a folder with all that is in it. It takes the place of a file or a link.
func mergeOne(one found, target *os.File) error {
	from, to := pathIn(one.in, one.name), pathIn(target, one.name)
	if !one.info.IsDir() {
		return at(one.path, syscall.Rename(from, to))
	}
	mode := one.info.Mode().Perm()
	if mode&0o700 != 0o700 {
		// It has to be written to be moved.
		if err := os.Chmod(from, mode|0o700); err != nil {
			return at(one.path, err)
		}
	}
	there, err := os.Lstat(to)
	if err == nil && there.IsDir() {
		if err := both(one, target, func(part, target *os.File) error { return merge(part, target, one.path) }); err != nil {
			return err
		}
		return at(one.path, syscall.Rmdir(from))
	}
	if err == nil && there.Mode()&fs.ModeSymlink != 0 {
		err = syscall.Unlink(to)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return at(one.path, err)
	}
	return at(one.path, moveIn(one, to, mode))
}

// moveIn moves a folder, and then sets its permissions.
func moveIn(one found, to string, mode fs.FileMode) error {
	folder, err := openIn(one, syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := rename(pathIn(one.in, one.name), to, false); err != nil || mode&0o700 == 0o700 {
		return err
	}
	return syscall.Fchmod(int(folder.Fd()), uint32(mode))
}
