package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A segment is a header and frames. A frame is a mark, the length of its record
// and a checksum, four bytes each, little-endian, and the record. The checksum
// covers the length as well. The mark is there to find the next frame behind
// bytes that cannot be read.
const (
	header      = "breakwater spool 1\n"
	frameMark   = "\xf7rec"
	frameHeader = len(frameMark) + 4 + 4
)

// MaxRecord is how large a record may be, in bytes.
const MaxRecord = 32 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a length, as it is written, and a record.
func checksum(length, record []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, record)
}

// appendFrame appends a record's frame.
func appendFrame(dst, record []byte) []byte {
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(record)))
	dst = append(dst, frameMark...)
	dst = append(dst, length...)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(length, record))
	return append(dst, record...)
}

// errTorn is a frame whose end is missing; errCorrupt one that is none.
var (
	errTorn    = errors.New("the frame has no end")
	errCorrupt = errors.New("these bytes are no frame")
)

// readFrame reads the frame that data begins with, and returns how long it is.
func readFrame(data []byte) (record []byte, n int, err error) {
	if len(data) < frameHeader {
		return nil, 0, errTorn
	}
	if string(data[:len(frameMark)]) != frameMark {
		return nil, 0, errCorrupt
	}
	length := data[len(frameMark) : len(frameMark)+4]
	size := binary.LittleEndian.Uint32(length)
	if size > MaxRecord {
		return nil, 0, errCorrupt
	}
	if uint64(len(data)-frameHeader) < uint64(size) {
		return nil, 0, errTorn
	}
	record = data[frameHeader : frameHeader+int(size)]
	if checksum(length, record) != binary.LittleEndian.Uint32(data[len(frameMark)+4:frameHeader]) {
		return nil, 0, errCorrupt
	}
	return record, frameHeader + int(size), nil
}

// resume finds the next frame behind one that cannot be read, or returns -1.
func resume(data []byte) int {
	for at := 1; at < len(data); at++ {
		next := bytes.Index(data[at:], []byte(frameMark))
		if next < 0 {
			return -1
		}
		at += next
		if _, _, err := readFrame(data[at:]); err == nil {
			return at
		}
	}
	return -1
}

// isBlank reports whether nothing was ever written here.
func isBlank(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }

// checkHeader says what is wrong with the beginning of a segment.
func checkHeader(data []byte) error {
	switch {
	case bytes.HasPrefix(data, []byte(header)):
		return nil
	case bytes.HasPrefix([]byte(header), data):
		return errTorn // ended while it was being made
	default:
		return fmt.Errorf("%w of a spool that this version can read", errCorrupt)
	}
}
