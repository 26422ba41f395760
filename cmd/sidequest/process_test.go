package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A child is the program as a process of its own.
type child struct {
	cmd    *exec.Cmd
	lines  chan string   // of its standard output; closed at its end
	exited chan struct{} // closed once it is gone
	err    error         // how it ended, once exited is closed

	mu     sync.Mutex
	stderr strings.Builder
}

// launch starts the program with a command and, beside what every program needs,
// an environment of its own. It is killed with the test.
func launch(t testing.TB, env []string, args ...string) *child {
	t.Helper()
	return launchProgram(t, binary(t), env, args...)
}

// launchProgram is launch for a program that was built elsewhere.
func launchProgram(t testing.TB, program string, env []string, args ...string) *child {
	t.Helper()
	p := &child{lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}, env...)
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		defer close(p.lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			select {
			case p.lines <- text.Text():
			default: // nobody reads on, and the program must not wait for that
			}
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// Write keeps what the program says on its standard error.
func (p *child) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *child) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// kill ends the process as a power failure would.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate asks the process to stop and returns how it ended.
func (p *child) terminate(t testing.TB) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

// wait waits for the end of the process and returns how it ended.
func (p *child) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-p.exited:
		return p.err
	case <-time.After(time.Minute):
		t.Fatal("the process does not end")
	}
	panic("unreachable")
}

// until reads the output up to a line that contains a text, and returns the line.
func (p *child) until(t testing.TB, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				t.Fatalf("the process ended before it said %q: %v\n%s", text, p.err, p.said())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			t.Fatalf("the process does not say %q:\n%s", text, p.said())
		}
	}
}

// environment configures a process that serves the market.
func (m *market) environment() []string {
	return append([]string{
		"SIDEQUEST_ADDR=127.0.0.1:0",
		"SIDEQUEST_PUBLIC_URL=" + m.Issuer,
		"SIDEQUEST_DATABASE_URL=" + m.DatabaseURL,
		"SIDEQUEST_NATS_URL=" + m.NATSURL,
		"SIDEQUEST_KEK_FILE=" + m.KEKFile,
		"SIDEQUEST_NETWORK=test",
		"SIDEQUEST_CHAIN_ID=735711",
		"SIDEQUEST_REWARD_TOKENS=" + string(testUSD) + ":tUSD:6",
		"SIDEQUEST_ARBITRATOR=0xE000000000000000000000000000000000000005",
		"SIDEQUEST_WRITES_PER_AGENT=1000000",
		"SIDEQUEST_WRITES_PER_IP=1000000",
	}, m.more...)
}

// A slot is a place in which one process after another serves the market.
type slot struct {
	m *market

	mu      sync.Mutex
	process *child
	address string
}

// serve starts a process in a new slot.
func (m *market) serve(t testing.TB) *slot {
	t.Helper()
	s := &slot{m: m}
	s.restart(t)
	return s
}

// restart kills the process, if there is one, and starts another.
func (s *slot) restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	before := s.process
	s.mu.Unlock()
	if before != nil {
		before.kill()
	}
	next := launch(t, s.m.environment(), "serve")
	addr, _, _ := strings.Cut(strings.TrimPrefix(next.until(t, "listening on "), "listening on "), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.address = next, "http://"+addr
}

func (s *slot) origin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// insist repeats a write, under its key and over any server, until it is answered
// for good.
func (a *agent) insist(ctx context.Context, origin func() string, tool string, args map[string]any) (answer, error) {
	for {
		got, err := a.at(origin()).call(ctx, tool, args)
		if err == nil && got.Code != "overloaded" && got.Code != "unavailable" {
			return got, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
}
