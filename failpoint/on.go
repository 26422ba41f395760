//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The variables that say what happens at which reach of which point.
const (
	killEnv  = "SIDEQUEST_KILL"    // "write.committed:3": the process kills itself at the third
	stopEnv  = "SIDEQUEST_STOP"    // the same, but it stops itself, as by SIGSTOP
	delayEnv = "SIDEQUEST_DELAY"   // "view.held:3:2s": it waits there
	logEnv   = "SIDEQUEST_REACHED" // a file that gets a line for each point at its first reach
)

// reached counts the reaches of each point in this process. It changes in no
// program but those that are built to fail.
var reached = struct {
	sync.Mutex

	times map[Point]int
}{times: map[Point]int{}}

// Reach says that the process has come to a point, and does what was asked for.
func Reach(p Point) {
	reached.Lock()
	reached.times[p]++
	n := reached.times[p]
	reached.Unlock()
	if n == 1 {
		note(p)
	}
	if now, _ := due(killEnv, p, n); now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may take a moment, and nothing more may happen
	}
	if now, _ := due(stopEnv, p, n); now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	if now, length := due(delayEnv, p, n); now {
		d, err := time.ParseDuration(length)
		if err != nil {
			panic(fmt.Errorf("%s: %w", delayEnv, err))
		}
		time.Sleep(d)
	}
}

// due says whether a variable means the n-th reach of the point, and what else it
// says.
func due(env string, p Point, n int) (bool, string) {
	value := os.Getenv(env)
	if value == "" {
		return false, ""
	}
	name, rest, _ := strings.Cut(value, ":")
	count, rest, _ := strings.Cut(rest, ":")
	want, err := strconv.Atoi(count)
	if err != nil {
		panic(fmt.Errorf("%s=%s: give POINT:NUMBER: %w", env, value, err))
	}
	return name == string(p) && n == want, rest
}

func note(p Point) {
	path := os.Getenv(logEnv)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(string(p) + "\n"); err != nil {
		panic(err)
	}
}
