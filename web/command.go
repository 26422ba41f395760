package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oklog/ulid/v2"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/oauth/signin"
	"sidequest/projections"
)

// execute carries out what an operator decided on a page. Commands of operators
// record nothing when all is so already, so a form that is sent twice does no harm.
func execute[R any](ctx context.Context, s *Server, by signin.Session, board, tool string, cmd domain.Command[R]) error {
	args, err := json.Marshal(cmd)
	if err != nil {
		return fmt.Errorf("encode %s: %w", tool, err)
	}
	hash, err := eventstore.HashArgs(tool, args)
	if err != nil {
		return err
	}
	op := eventstore.Operation{
		Owner: actor(by), Key: "web-" + ulid.Make().String(), Tool: tool, ArgsHash: hash, Board: board, At: s.cfg.Now(),
	}
	_, err = eventstore.Execute(ctx, s.cfg.Store, op, cmd)
	return err
}

// actor is who an operator is in the log.
func actor(by signin.Session) domain.AgentKey { return domain.AgentKey(by.Operator.ID) }

// caughtUp waits until the views show all that has happened by now: what the
// operator did a moment ago, and what led an application to send them here.
func (s *Server) caughtUp(ctx context.Context) error {
	return s.cfg.Store.AwaitHead(ctx, []string{
		projections.Agents.Checkpoint(), projections.Connections.Checkpoint(), projections.Approvals.Checkpoint(),
	})
}
