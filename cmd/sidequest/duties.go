package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/projections"
)

// mainBoard is the board every deployment has.
const mainBoard = "main"

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
		Owner: domain.System, Key: fmt.Sprintf("board-%s-%x", board.Slug, hash), Tool: "configure_board",
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
		due, err := projections.DueRequests(ctx, projections.Reader{DB: p.pool, Now: time.Now()}, expiryBatch)
		if err != nil {
			return err
		}
		for _, id := range due {
			if err := p.expireRequest(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func (p *process) expireRequest(ctx context.Context, id domain.RequestID) error {
	hash, err := eventstore.HashArgs("expire_request", fmt.Appendf(nil, `{"requestId":%q}`, id))
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: domain.System, Key: "expire-" + string(id), Tool: "expire_request", ArgsHash: hash, Board: mainBoard, At: time.Now(),
	}
	if _, err := eventstore.Execute(ctx, p.store, op, domain.ExpireRequest{RequestID: id}); err != nil {
		return fmt.Errorf("expire request %s: %w", id, err)
	}
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
