package delivery

import (
	"context"
	"fmt"
	"time"

	"sidequest/mcp"
)

// keepAlive is how often a stream that has nothing to say is kept from being
// closed by a proxy.
const keepAlive = 15 * time.Second

// Listening returns what carries subscriptions/listen. Its streams are counted
// like those of events, apart from them: a grant has [MaxStreams] of each. The
// lists that can change are the caller's to add.
func (f *Feeds) Listening() *mcp.Listening {
	return &mcp.Listening{
		Enter:     f.enterListener,
		Revoked:   f.Revoked,
		Stopping:  f.draining,
		Life:      f.Pace.Life,
		KeepAlive: keepAlive,
	}
}

func (f *Feeds) enterListener(ctx context.Context, c mcp.Caller) (mcp.Listener, error) {
	entered, wait, err := f.register.enter(ctx, listenStream, c.GrantID)
	if err != nil {
		return mcp.Listener{}, err
	}
	if wait > 0 {
		return mcp.Listener{}, f.Codes.tooManyOpenings(wait)
	}
	return mcp.Listener{Ended: entered.ended, Leave: func() { f.leave(ctx, entered) }}, nil
}

// Listens says whether a grant holds subscriptions/listen open, in any process.
// Of a process that died it is believed for a minute.
func (f *Feeds) Listens(ctx context.Context, grant string) (held bool, err error) {
	err = f.DB.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT
			FROM live.streams
			WHERE grant_id = $1 AND kind = $2 AND NOT ended AND seen_at > clock_timestamp() - $3::interval)`,
		grant, listenStream, processGone).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look whether %s listens: %w", grant, err)
	}
	return held, nil
}
