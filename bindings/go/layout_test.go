package kvc

import (
	"bufio"
	"fmt"
	"os"
	"testing"
)

// Every struct and member lies in Go as the C compiler has it.
func TestLayoutIsThatOfC(t *testing.T) {
	file, err := os.Open("../../tests/abi/layout.txt")
	if err != nil {
		t.Skip("the table of the C compiler is in kvc's own tree only: ", err)
	}
	defer file.Close()
	here, seen := goLayout(), 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var sort, name string
		var place [2]uintptr
		if _, err := fmt.Sscan(lines.Text(), &sort, &name, &place[0], &place[1]); err != nil {
			continue
		}
		if got, known := here[sort+" "+name]; known {
			seen++
			if got != place {
				t.Errorf("%s %s: %v in Go, %v in C", sort, name, got, place)
			}
		}
	}
	if seen != len(here) {
		t.Errorf("the table has %d of %d entries", seen, len(here))
	}
}
