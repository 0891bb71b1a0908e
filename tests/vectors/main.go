// Command vectors writes what the real Kubernetes library answers for thousands of label selectors and numbers, so that
// the Python tests can compare. With -check it writes nothing and fails if the committed files differ.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "compare with the files instead of writing them")
	folder := flag.String("folder", ".", "where the files are")
	flag.Parse()

	files := map[string][]byte{
		"selectors.json":  selectorVectors(),
		"quantities.json": quantityVectors(),
	}
	failed := false
	for name, want := range files {
		path := filepath.Join(*folder, name)
		if !*check {
			must(os.WriteFile(path, want, 0o644))
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			fmt.Fprintf(os.Stderr, "%s differs from what this program writes: run `go run .` in tests/vectors\n", path)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// compact returns v as JSON on one line, with the characters of HTML left as they are.
func compact(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(v))
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// lines returns a JSON list with one case a line, which keeps diffs readable.
func lines(cases []any) []byte {
	var buffer bytes.Buffer
	buffer.WriteString("[\n")
	for i, one := range cases {
		buffer.Write(compact(one))
		if i < len(cases)-1 {
			buffer.WriteByte(',')
		}
		buffer.WriteByte('\n')
	}
	buffer.WriteByte(']')
	return buffer.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
