package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestTestdbLendsADatabaseToItsCommandAndTakesItAway(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer
	err := testdb(t.Context(), []string{"--", "sh", "-c", `echo "$TEST_DATABASE_URL"`}, &out, &log)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(out.String())
	if !strings.HasPrefix(url, "postgres://postgres@/postgres?host=/") {
		t.Errorf("the command saw TEST_DATABASE_URL=%q", url)
	}
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the server answers after the command ended")
	}
}

func TestTestdbFailsAsItsCommandDoes(t *testing.T) {
	t.Parallel()
	err := testdb(t.Context(), []string{"sh", "-c", "exit 7"}, io.Discard, io.Discard)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("testdb answered %v, want exit status 7", err)
	}
}

func TestTestdbEndsItsCommandWhenItIsToldToStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	result := make(chan error, 1)
	go func() {
		// The grandchild would outlive a signal that reached its parent alone.
		result <- testdb(ctx, []string{"sh", "-c", `echo "$TEST_DATABASE_URL"; sleep 600 & wait`}, write, io.Discard)
	}()
	url, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-result; err == nil {
		t.Error("a command that was stopped counts as a success")
	}
	if conn, err := pgx.Connect(t.Context(), strings.TrimSpace(url)); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the server answers after testdb was stopped")
	}
}
