// A program outside of kvc's tree: what it needs is a go.mod that finds the module, and PKG_CONFIG_PATH.
package main

import (
	"context"
	"fmt"
	"log"

	"kvc"
)

func main() {
	store, err := kvc.Open("mem:", &kvc.StoreOptions{MemoryBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	scope, err := store.Scope(kvc.ScopeOptions{Model: "outside"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err = scope.Put(ctx, []byte("key"), []byte("ok")); err != nil {
		log.Fatal(err)
	}
	value, err := scope.Get(ctx, []byte("key"))
	if err != nil {
		log.Fatal(err)
	}
	if err = store.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(value))
}
