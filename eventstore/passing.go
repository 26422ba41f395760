package eventstore

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Passing says whether an error comes from a database that is away, busy, starting
// or stopping, rather than from what it was asked: the same call may succeed later.
func Passing(err error) bool {
	if pg, answered := errors.AsType[*pgconn.PgError](err); answered {
		return passingState(pg.Code)
	}
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused {
		return true
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// passingState says so of an SQLSTATE: classes 08, 40, 53, 55, 57 and 58.
func passingState(code string) bool {
	switch code[:2] {
	case "08", "40", "53", "55", "57", "58":
		return true
	}
	return false
}
