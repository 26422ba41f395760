package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/failpoint"
	"sidequest/mcp"
	"sidequest/projections"
)

// mainBoard is the board every deployment has.
const mainBoard = mcp.MainBoard

// configureBoard sets the board main up as the configuration says. The command
// records nothing when that is how it is.
func (p *process) configureBoard(ctx context.Context) error {
	board := domain.Board{
		Slug: mainBoard, Name: "Sidequest", RewardTokens: p.cfg.Tokens, Arbitrator: p.cfg.Arbitrator,
		Network: p.cfg.Network.Name, ChainID: p.cfg.Network.ChainID,
	}
	args, err := json.Marshal(board)
	if err != nil {
		return err
	}
	hash, err := eventstore.HashArgs("configure_board", args)
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: domain.System, Key: rand.Text(), Tool: "configure_board", // a configuration may well come back
		ArgsHash: hash, Board: board.Slug, At: time.Now(),
	}
	_, err = eventstore.Execute(ctx, p.store, op, domain.ConfigureBoard{Board: board})
	if err != nil {
		return fmt.Errorf("configure board %s: %w", board.Slug, err)
	}
	return nil
}

const (
	expiryPace   = 5 * time.Second
	expiryBatch  = 100
	partitioning = time.Minute
)

// expire records that requests have expired. Its key names the request, so that
// any number of processes and repeats make one event.
func (p *process) expire(ctx context.Context) error {
	p.store.Singly(ctx, "expire requests", p.name, expiryPace, func(ctx context.Context) error {
		due, err := projections.DueRequests(ctx, p.pool, time.Now(), expiryBatch)
		if err != nil {
			return err
		}
		var failures []error // one request must not keep the others open
		for _, r := range due {
			failures = append(failures, p.expireRequest(ctx, r))
		}
		return errors.Join(failures...)
	})
	return nil
}

func (p *process) expireRequest(ctx context.Context, due projections.DueRequest) error {
	hash, err := eventstore.HashArgs("expire_request", fmt.Appendf(nil, `{"requestId":%q}`, due.RequestID))
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: domain.System, Key: "expire-" + string(due.RequestID), Tool: "expire_request", ArgsHash: hash, Board: due.Board, At: time.Now(),
	}
	failpoint.Reach(failpoint.ExpiryDue)
	if _, err := eventstore.Execute(ctx, p.store, op, domain.ExpireRequest{RequestID: due.RequestID}); err != nil {
		return fmt.Errorf("expire request %s: %w", due.RequestID, err)
	}
	failpoint.Reach(failpoint.ExpiryRecorded)
	return nil
}

// makePartitions sees that the log always has room ahead.
func (p *process) makePartitions(ctx context.Context) error {
	p.store.Singly(ctx, "make partitions", p.name, partitioning, func(ctx context.Context) error {
		_, err := p.pool.Exec(ctx, `SELECT log.make_partitions()`)
		return err
	})
	return nil
}
