package kvc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Counters count what was done, as numbers and as text.
func TestMetrics(t *testing.T) {
	store := openStore(t, nil)
	scope := openScope(t, store, "m")
	written(t, scope, 1, 1, 32)
	_, _, err := scope.Match(background, prompt(1, 32), nil)
	check(t, err)
	m := must[Metrics](t)(store.Metrics())
	if m.MatchCalls != 1 || m.MatchTokens != 32 || m.HitTokens != 32 || m.AppendBytes != 32*layers*heads*(kDim+vDim)*2 {
		t.Fatalf("%+v", m)
	}
	out := must[string](t)(store.MetricsText())
	if !strings.Contains(out, "# TYPE kvc_") || strings.Contains(out, "\x00") {
		t.Fatal(out)
	}
	if Version() == "" || Features() != must[StoreInfo](t)(store.Info()).Features {
		t.Fatal(Version(), Features())
	}
}

// A trace is a file of JSON with a span a call.
func TestTrace(t *testing.T) {
	store := openStore(t, nil)
	path := filepath.Join(t.TempDir(), "trace.json")
	check(t, store.Trace(path))
	written(t, openScope(t, store, "m"), 1, 1, 32)
	check(t, store.Trace(""))
	var parsed any
	check(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(path)), &parsed))
	if !strings.Contains(string(must[[]byte](t)(os.ReadFile(path))), "append") {
		t.Fatal("no span of the append")
	}
	expectStatus(t, store.Trace("/nowhere/trace"), ErrIO)
}
