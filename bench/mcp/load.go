package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"sidequest/bench/rounds"
)

// peerToken is what the servers of others take for a token: as long as ours.
var peerToken = strings.Repeat("t", 700)

// call is the one request that all servers get.
const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"The quick brown fox jumps over the lazy dog."},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`

// A server is a process on one core that serves the tool.
type server struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	url    string
	token  string
	client *http.Client
}

// start runs a command that writes the address it serves on, and its token if it
// makes one.
func start(ctx context.Context, command []string) (*server, error) {
	if taskset, err := exec.LookPath("taskset"); err == nil {
		command = append([]string{taskset, "-c", "0"}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hear where it serves: %w", err), stdin.Close(), cmd.Wait())
	}
	url, token, made := strings.Cut(strings.TrimSpace(line), " ")
	if !made {
		token = peerToken
	}
	return &server{cmd, stdin, url, token, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}, nil
}

func (s *server) stop() error {
	s.client.CloseIdleConnections()
	return errors.Join(s.stdin.Close(), s.cmd.Wait())
}

// warm opens the connections and checks that the server does what is measured.
func (s *server) warm(ctx context.Context, clients int, _ time.Duration) error {
	for range 20 * clients {
		body, err := s.call(ctx)
		if err != nil {
			return err
		}
		for _, part := range []string{`"resultType":"complete"`, `"structuredContent"`, "lazy dog", `"id":7`} {
			if !bytes.Contains(body, []byte(part)) {
				return fmt.Errorf("the answer lacks %s: %s", part, body)
			}
		}
	}
	return nil
}

// turn calls for a while, and tells the processor time of the server alone.
func (s *server) turn(ctx context.Context, clients int, span time.Duration) (rounds.Sample, error) {
	before, err := rounds.Spent(s.cmd.Process.Pid)
	if err != nil {
		return rounds.Sample{}, err
	}
	caller := rounds.Contestant{Name: "calls", Once: func(ctx context.Context, _ int) error {
		_, err := s.call(ctx)
		return err
	}}
	result, err := rounds.Run(ctx, rounds.Plan{Rounds: 1, Span: span, Writers: clients}, caller)
	if err != nil {
		return rounds.Sample{}, err
	}
	sample := result[caller.Name][0]
	after, err := rounds.Spent(s.cmd.Process.Pid)
	sample.CPU = after - before
	return sample, err
}

func (s *server) call(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(call))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + s.token}, "Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"},
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("call: status %d: %s", res.StatusCode, body)
	}
	return body, err
}
