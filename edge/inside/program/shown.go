package main

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Of a command, as JSON, in a list: with a note of 64 KiB and a folder of 24 KiB, as JSON, the list of all processes
// stays below the 8 MiB that an edge reads.
const mostShownCommand = 12 << 10

// shownCommand is the start of a command. The last argument says how many bytes are missing.
func shownCommand(command []rawText) []rawText {
	room := mostShownCommand
	for index, argument := range command {
		// Its quotes and its comma.
		room -= 3
		for at := 0; at < len(argument); at++ {
			room -= encodedBytes(argument[at])
			if room < 0 {
				return cutCommand(command, index, at)
			}
		}
		if room < 0 {
			return cutCommand(command, index, 0)
		}
	}
	return command
}

// encodedBytes is at least how many bytes of JSON a byte of a rawText takes.
func encodedBytes(character byte) int {
	switch {
	case character < ' ':
		return 6
	case character == '"', character == '\\', character >= utf8.RuneSelf:
		return 2
	}
	return 1
}

func cutCommand(command []rawText, index, at int) []rawText {
	argument := command[index]
	for at > 0 && !utf8.RuneStart(argument[at]) {
		at--
	}
	missing := len(argument) - at
	for _, later := range command[index+1:] {
		missing += len(later)
	}
	end := rawText(fmt.Sprintf("… (%d more bytes)", missing))
	return append(slices.Clone(command[:index]), argument[:at]+end)
}
