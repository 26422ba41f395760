package eventstore

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// TopicLog rings when events were appended.
const TopicLog = "log"

// TopicView rings when a follower of the log moved.
func TopicView(name string) string { return "view." + name }

// A Wake tells every process that something moved, by core NATS after the commit.
// It carries no facts and may lose a ring: whoever listens also looks by itself
// from time to time.
type Wake struct {
	conn   *nats.Conn
	prefix string
	sub    *nats.Subscription

	mu        sync.Mutex
	listeners map[string]map[chan struct{}]bool
}

// NewWake listens on the subjects below "<prefix>.wake". All processes of one
// deployment use the same prefix.
func NewWake(conn *nats.Conn, prefix string) (*Wake, error) {
	w := &Wake{conn: conn, prefix: prefix + ".wake.", listeners: map[string]map[chan struct{}]bool{}}
	var err error
	w.sub, err = conn.Subscribe(w.prefix+">", func(m *nats.Msg) {
		w.stir(strings.TrimPrefix(m.Subject, w.prefix))
	})
	if err != nil {
		return nil, fmt.Errorf("listen for wake-ups: %w", err)
	}
	return w, nil
}

// Close stops listening.
func (w *Wake) Close() { _ = w.sub.Unsubscribe() }

// Ring wakes the listeners of a topic in every process. Without NATS it wakes
// those of this one, and the others find out when they look.
func (w *Wake) Ring(topic string) {
	if !w.conn.IsConnected() || w.conn.Publish(w.prefix+topic, nil) != nil {
		w.stir(topic)
	}
}

// Listen returns a channel that has a value whenever the topic rang since the
// last receive: many rings make one. Call stop when done.
func (w *Wake) Listen(topics ...string) (rang <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		if w.listeners[topic] == nil {
			w.listeners[topic] = map[chan struct{}]bool{}
		}
		w.listeners[topic][c] = true
	}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, topic := range topics {
			delete(w.listeners[topic], c)
		}
	}
}

func (w *Wake) stir(topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.listeners[topic] {
		select {
		case c <- struct{}{}:
		default: // it has a ring to come
		}
	}
}
