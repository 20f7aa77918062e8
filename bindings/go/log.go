package kvc

// #cgo pkg-config: kvc
// #include <kvc/kvc.h>
// extern void kvcGoLog(uint32_t level, char *line, void *context);
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

func logFunction() unsafe.Pointer { return C.kvcGoLog }

//export kvcGoLog
func kvcGoLog(level C.uint32_t, line *C.char, context unsafe.Pointer) {
	defer func() { _ = recover() }() // it would unwind C, which has no way back
	(*cgo.Handle)(context).Value().(func(uint32, string))(uint32(level), C.GoString(line))
}
