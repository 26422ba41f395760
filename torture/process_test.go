package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the program with failpoints and race detector, built once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// binary returns the path of the program.
func binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "sidequest-torture-"); built.err != nil { //nolint:usetesting // it outlives the test that is the first
			return
		}
		out, err := exec.Command("go", "build", "-race", "-tags", "failpoints", "-o", built.dir, "sidequest/cmd/sidequest").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "sidequest")
}

// A child is the program as a process of its own.
type child struct {
	cmd    *exec.Cmd
	lines  chan string   // of its standard output; closed at its end
	exited chan struct{} // closed once it is gone
	err    error         // how it ended, once exited is closed

	mu     sync.Mutex
	stderr strings.Builder
}

// launch starts the program with a command. It is killed with the test, and a data
// race in it fails the test.
func (f *field) launch(extra []string, args ...string) *child {
	p := &child{lines: make(chan string, 1000), exited: make(chan struct{})}
	p.cmd = exec.Command(f.program, args...)
	p.cmd.Env = append(f.environment(), extra...)
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
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
	f.t.Cleanup(func() {
		p.kill()
		if said := p.said(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") {
			f.t.Errorf("a process said:\n%s", said)
		}
	})
	return p
}

// Write keeps what the program says on its standard error, the last of it.
func (p *child) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := string(b); !strings.Contains(text, `"level":"INFO"`) {
		p.stderr.WriteString(text)
	}
	return len(b), nil
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

// killed says whether the process ended by SIGKILL. It must have ended.
func (p *child) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// until reads the output up to a line that contains a text, and returns the line.
func (p *child) until(text string) (string, error) {
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if isStopped(p.cmd.Process.Pid) {
				return "", errors.New("the process stopped itself")
			}
		case line, open := <-p.lines:
			if !open {
				return "", fmt.Errorf("the process ended before it said %q: %w\n%s", text, p.err, p.said())
			}
			if strings.Contains(line, text) {
				return line, nil
			}
		case <-deadline:
			return "", fmt.Errorf("the process does not say %q:\n%s", text, p.said())
		}
	}
}

// command runs a command of the program to its end and returns what it printed.
func (f *field) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.program, args...)
	cmd.Env = f.environment()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("sidequest %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// A slot is a place in which one process after another serves.
type slot struct {
	f *field

	mu      sync.Mutex
	process *child
	address string
}

// start starts a process, with more in its environment, where there was none or
// one that is gone.
func (s *slot) start(extra ...string) {
	next := s.f.launch(extra, "serve")
	line, err := next.until("listening on ")
	if err != nil && len(extra) == 0 {
		s.f.t.Error(err)
		return
	}
	addr, _, _ := strings.Cut(strings.TrimPrefix(line, "listening on "), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = next
	if err == nil { // a process armed to die may not have come so far
		s.address = "http://" + addr
	}
}

// restart kills the process and starts another.
func (s *slot) restart(extra ...string) {
	s.now().kill()
	s.start(extra...)
}

func (s *slot) now() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *slot) origin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}
