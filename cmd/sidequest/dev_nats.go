package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// An embeddedNATS is the NATS server of a development deployment. Of all
// processes on one data folder, the one that holds the lock runs it.
type embeddedNATS struct {
	server *natsserver.Server
	lock   *os.File // held until the process ends, in whatever way
	url    string
}

// startNATS starts NATS with JetStream in this process, on a file store in the
// data folder. Where another process on the folder runs it already, it returns
// that one's deployment instead.
func startNATS(ctx context.Context, dir string) (*embeddedNATS, *deployment, error) {
	lock, running, err := claimNATS(ctx, dir)
	if err != nil || running != nil {
		return nil, running, err
	}
	port, token := addressBefore(ctx)
	ns, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, Authorization: token,
		JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoSigs: true, NoLog: true, MaxPayload: 4 << 20,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start NATS: %w", err)
	}
	ns.Start()
	if !ready(ctx, ns) {
		ns.Shutdown()
		return nil, nil, errors.New("start NATS: it does not get ready")
	}
	return &embeddedNATS{ns, lock, fmt.Sprintf("nats://%s@%s", token, ns.Addr())}, nil, nil
}

// addressBefore returns the port and the token of the NATS before this one, so that
// processes which outlived it find the new one. Where there was none, or somebody
// else has the port now, both are new.
func addressBefore(ctx context.Context) (port int, token string) {
	d, err := loadDeployment()
	if err != nil {
		return natsserver.RANDOM_PORT, rand.Text()
	}
	u, err := url.Parse(d.NATSURL)
	if err != nil || u.User == nil {
		return natsserver.RANDOM_PORT, rand.Text()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", u.Host)
	if err != nil {
		return natsserver.RANDOM_PORT, rand.Text()
	}
	defer l.Close() //nolint:errcheck // it has served its purpose
	return l.Addr().(*net.TCPAddr).Port, u.User.Username()
}

// ready waits until the server takes connections and has its store.
func ready(ctx context.Context, ns *natsserver.Server) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; {
		if ns.ReadyForConnections(100*time.Millisecond) && ns.JetStreamEnabled() {
			return true
		}
	}
	return false
}

// stop ends the server and lets another process take its place.
func (e *embeddedNATS) stop() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
	_ = e.lock.Close() // its only use was to be held
}

// claimNATS returns the lock of the one process that may run NATS, or the
// deployment of the one that does, as soon as its NATS answers.
func claimNATS(ctx context.Context, dir string) (*os.File, *deployment, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "nats.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("claim NATS: %w", err)
	}
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return lock, nil, nil
		}
		if d, err := loadDeployment(); err == nil && answers(d.NATSURL) {
			return nil, &d, lock.Close()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// answers says whether a NATS server is there.
func answers(url string) bool {
	conn, err := nats.Connect(url, nats.Timeout(time.Second))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
