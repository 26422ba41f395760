package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
)

// stuck is how far a consumer may be behind before the program is not well.
const stuck = 10_000 // positions

// A healthReport is what GET /health answers. Status is ok; degraded when it
// serves but something is missing; down when it cannot serve.
type healthReport struct {
	Status    string           `json:"status"`
	Version   string           `json:"version"`
	Postgres  part             `json:"postgres"`
	NATS      part             `json:"nats"`
	Consumers map[string]int64 `json:"consumers"`       // positions behind the head
	Stuck     []stuckView      `json:"stuck,omitempty"` // consumers that cannot go on
	Network   string           `json:"network"`
}

// A stuckView is a consumer before an event that it cannot apply.
type stuckView struct {
	Consumer string    `json:"consumer"`
	Position int64     `json:"position"`
	Since    time.Time `json:"since"`
}

type part struct {
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// followers are the consumers of this version of the program. Those of another
// version may run beside it, and are its business.
func followers() []string {
	names := []string{eventstore.ShredConsumer}
	for _, view := range projections.All() {
		names = append(names, view.Checkpoint())
	}
	return names
}

func (p *process) health(w http.ResponseWriter, r *http.Request) {
	report := p.examine(r.Context())
	body, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		p.log.Error("encode the health report", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if report.Status == "down" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n')) // a client that has left is not worth a line in the log
}

// examine looks at everything the program depends on. Without NATS it writes and
// reads as before, and only hears of things later.
func (p *process) examine(ctx context.Context) healthReport {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	report := healthReport{Status: "ok", Version: mcp.Version, Network: p.cfg.Network.Name, NATS: part{OK: p.nats.IsConnected()}}
	if !report.NATS.OK {
		report.Status, report.NATS.Detail = "degraded", "not connected; followers look for news by themselves"
	}
	lag, err := p.store.Lag(ctx, followers())
	letters, lettersErr := p.store.DeadLetters(ctx)
	if err = errors.Join(err, lettersErr); err != nil {
		report.Status, report.Postgres.Detail = "down", "does not answer"
		return report
	}
	report.Postgres.OK, report.Consumers = true, lag
	for _, behind := range lag {
		if behind > stuck {
			report.Status = "degraded"
		}
	}
	for _, l := range letters {
		if !l.Skipped {
			report.Status = "degraded"
			report.Stuck = append(report.Stuck, stuckView{l.Consumer, l.Position, l.At})
		}
	}
	return report
}
