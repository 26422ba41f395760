package torture

import (
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"sidequest/postgres"
)

// A proxy stands between the processes and Postgres, and cuts connections at the
// worst moment: when a statement has gone to the server and its answer has not
// come back.
type proxy struct {
	url      string // of the database through the proxy
	listener net.Listener

	mu     sync.Mutex
	target string // socket of the server
	open   map[net.Conn]bool
	cuts   int // how many large statements are still to lose their answer
}

// largeStatement is the size from which on a message is an append.
const largeStatement = 1000

func newProxy(t *testing.T, c *postgres.Cluster) *proxy {
	t.Helper()
	dir := throwaway(t, "sidequest-torture-")
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.User(postgres.Program), Path: "/" + postgres.Database, RawQuery: "host=" + dir}
	p := &proxy{url: u.String(), listener: l, open: map[net.Conn]bool{}}
	p.aim(t, c)
	t.Cleanup(func() {
		_ = l.Close()
		p.cutAll()
	})
	go p.accept()
	return p
}

// aim sends connections to a cluster from now on.
func (p *proxy) aim(t *testing.T, c *postgres.Cluster) {
	t.Helper()
	u, err := url.Parse(c.URL(postgres.Database, postgres.Program))
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.target = filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
	p.mu.Unlock()
	p.cutAll()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("unix", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		go p.carry(client, server, true)
		go p.carry(server, client, false)
	}
}

// carry copies one direction until either side closes.
func (p *proxy) carry(from, to net.Conn, statements bool) {
	defer p.drop(from, to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			cut := statements && n >= largeStatement && p.spend()
			if cut {
				_ = from.Close() // before the answer can come
			}
			if _, err := to.Write(buffer[:n]); err != nil || cut {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// spend says whether this statement is one of those to lose their answer.
func (p *proxy) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts == 0 {
		return false
	}
	p.cuts--
	return true
}

// cut makes so many appends lose their answer.
func (p *proxy) cut(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = n
}

// left is how many of them are still to come.
func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// cutAll drops every connection at once.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
}
