package cache

import (
	"errors"
	"fmt"
	"strings"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

var errNoKey = errors.New("a script names at least one key")

// Slot returns the hash slot of a key as Redis Cluster counts it: CRC16 of the
// text between the first { and the next } when there is any, else of the whole
// key. Keys of one call must share it.
func Slot(key string) uint16 {
	return crc16(hashTag(key)) % slots
}

func hashTag(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	length := strings.IndexByte(key[open+1:], '}')
	if length <= 0 {
		return key
	}
	return key[open+1 : open+1+length]
}

// sameSlot refuses keys that a cluster would refuse as CROSSSLOT, so that what
// works in this process works there.
func sameSlot(keys []string) error {
	if len(keys) == 0 {
		return errNoKey
	}
	first := Slot(keys[0])
	for _, key := range keys[1:] {
		if Slot(key) != first {
			return fmt.Errorf("keys %q and %q are in different slots: give them the same {tag}", keys[0], key)
		}
	}
	return nil
}

// crc16 is CRC-16/XMODEM (polynomial 0x1021, start 0).
func crc16(text string) uint16 {
	var sum uint16
	for i := range len(text) {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^text[i]]
	}
	return sum
}

var crcTable = makeCRCTable()

func makeCRCTable() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum & 0x8000
			sum <<= 1
			if carry != 0 {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}
