package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// openTerminal makes a pair of pseudo-terminals: the end that controls it, and that of the program.
func openTerminal(wanted size) (controller, terminal *os.File, err error) {
	controller, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var number, unlocked int32
	if err = control(controller, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); err == nil {
		err = control(controller, syscall.TIOCGPTN, unsafe.Pointer(&number))
	}
	if err == nil {
		err = setSize(controller, wanted)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		controller.Close()
		return nil, nil, err
	}
	return controller, terminal, nil
}

// setSize tells the programs of a terminal its size.
func setSize(controller *os.File, wanted size) error {
	given := struct{ rows, cols, x, y uint16 }{rows: wanted.Rows, cols: wanted.Cols}
	return control(controller, syscall.TIOCSWINSZ, unsafe.Pointer(&given))
}

func control(file *os.File, request uintptr, argument unsafe.Pointer) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var number syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, number = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	}); err != nil {
		return err
	}
	if number != 0 {
		return number
	}
	return nil
}

// awaitEnd waits for the end of a child and leaves it to be waited for.
func awaitEnd(pid int) {
	const onePid, exited, keep = 1, 0x4, 0x01000000
	// The size of siginfo_t.
	var info [128]byte
	for {
		_, _, number := syscall.Syscall6(syscall.SYS_WAITID, onePid, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			exited|keep, 0, 0)
		if number != syscall.EINTR {
			return
		}
	}
}
