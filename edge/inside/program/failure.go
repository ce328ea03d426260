package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// failure is what a caller is told: a code for the program, and words for a person.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return f.Message }

var errEnding = &failure{"ending", "the program of this pod is being stopped"}

func invalid(format string, values ...any) error {
	return &failure{"invalid", fmt.Sprintf(format, values...)}
}

// asFailure finds the code of an error of the operating system.
func asFailure(err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	reason := err
	var number syscall.Errno
	if errors.As(err, &number) {
		reason = number
	}
	code := "failed"
	switch {
	case errors.Is(err, errGone), errors.Is(err, io.ErrUnexpectedEOF):
		code = "gone"
	case errors.Is(err, fs.ErrNotExist):
		code = "notFound"
	case errors.Is(err, syscall.ENOTDIR):
		code = "notFolder"
	case errors.Is(err, syscall.EISDIR):
		code = "isFolder"
	case errors.Is(err, syscall.ENOTEMPTY):
		code = "notEmpty"
	case errors.Is(err, fs.ErrExist):
		code = "exists"
	case errors.Is(err, syscall.EROFS):
		code = "readOnly"
	case errors.Is(err, fs.ErrPermission):
		code = "denied"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		code = "full"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.ENFILE):
		code = "busy"
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		code = "invalid"
	case errors.Is(err, syscall.EXDEV):
		code = "otherVolume"
	}
	return &failure{code, reason.Error()}
}
