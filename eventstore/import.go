package eventstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
)

// importBatch is how many rows one COPY carries.
const importBatch = 5000

// An importer copies an export into an empty log, in one transaction.
type importer struct {
	tx         pgx.Tx
	events     [][]any
	operations [][]any
	streams    map[domain.Stream]*importedStream
	last       int64
}

type importedStream struct {
	version int
	first   int64
}

// Import fills an empty log from an export, which it checks on the way: all of it
// or nothing. Events, receipts, seals and the epoch come out as they went in.
func (s *Store) Import(ctx context.Context, x *Export) (*Verifier, error) {
	v := &Verifier{Keys: x.Keys}
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		var pos int64
		err := tx.QueryRow(ctx, `SELECT pos + (SELECT count(*) FROM log.operations) FROM log.head WHERE shard = 0 FOR UPDATE`).Scan(&pos)
		if err != nil {
			return err
		}
		if pos != 0 {
			return errors.New("the database is not empty; an import needs a new one")
		}
		i := &importer{tx: tx, streams: map[domain.Stream]*importedStream{}}
		err = x.walk(v,
			func(e Recorded) error { return i.event(ctx, e) },
			func(o exportOperation) error { return i.operation(ctx, o) })
		if err != nil {
			return err
		}
		return i.finish(ctx, x, v.Seals)
	})
	if err != nil {
		return v, fmt.Errorf("import the log: %w", err)
	}
	return v, nil
}

func (i *importer) event(ctx context.Context, e Recorded) error {
	i.events = append(i.events, []any{
		e.Position, e.ID, string(e.Stream), e.Version, e.Type, e.Schema, string(e.Actor), e.Board, e.Causation, e.Correlation,
		e.At, e.Data, notNull(e.PrevHash), e.Hash,
	})
	stream := i.streams[e.Stream]
	if stream == nil {
		stream = &importedStream{first: e.Position}
		i.streams[e.Stream] = stream
	}
	stream.version, i.last = e.Version, e.Position
	if len(i.events) < importBatch {
		return nil
	}
	return i.flushEvents(ctx)
}

// flushEvents copies what has gathered and sees that the next rows have a partition.
func (i *importer) flushEvents(ctx context.Context) error {
	_, err := i.tx.CopyFrom(ctx, pgx.Identifier{"log", "events"}, []string{
		"pos", "id", "stream_id", "version", "type", "schema_v", "actor", "board", "causation", "correlation",
		"at", "data", "prev_hash", "hash",
	}, pgx.CopyFromRows(i.events))
	if err != nil {
		return err
	}
	i.events = i.events[:0]
	if _, err := i.tx.Exec(ctx, `UPDATE log.head SET pos = $1 WHERE shard = 0`, i.last); err != nil {
		return err
	}
	_, err = i.tx.Exec(ctx, `SELECT log.make_partitions()`)
	return err
}

func (i *importer) operation(ctx context.Context, o exportOperation) error {
	i.operations = append(i.operations, []any{
		string(o.Owner), o.Key, o.OperationID, o.Tool, []byte(o.ArgsHash), o.Status, []byte(o.Result), o.LastPos, o.At,
	})
	if len(i.operations) < importBatch {
		return nil
	}
	return i.flushOperations(ctx)
}

func (i *importer) flushOperations(ctx context.Context) error {
	_, err := i.tx.CopyFrom(ctx, pgx.Identifier{"log", "operations"}, []string{
		"owner", "op_key", "operation_id", "tool", "args_hash", "status", "result", "last_pos", "at",
	}, pgx.CopyFromRows(i.operations))
	i.operations = i.operations[:0]
	return err
}

func (i *importer) finish(ctx context.Context, x *Export, seals []Seal) error {
	if err := i.flushEvents(ctx); err != nil {
		return err
	}
	if err := i.flushOperations(ctx); err != nil {
		return err
	}
	streams := make([][]any, 0, len(i.streams))
	for id, s := range i.streams {
		streams = append(streams, []any{string(id), s.version, s.first, false})
	}
	_, err := i.tx.CopyFrom(ctx, pgx.Identifier{"log", "streams"}, []string{"stream_id", "version", "first_pos", "archived"}, pgx.CopyFromRows(streams))
	if err != nil {
		return err
	}
	rows := make([][]any, len(seals))
	for n, s := range seals {
		rows[n] = []any{s.Seq, s.From, s.To, s.Epoch, []byte(s.Root), notNull(s.Prev), s.At, s.KeyID, []byte(s.Signature)}
	}
	_, err = i.tx.CopyFrom(ctx, pgx.Identifier{"log", "seals"}, []string{
		"seq", "from_pos", "to_pos", "epoch", "root", "prev", "at", "key_id", "signature",
	}, pgx.CopyFromRows(rows))
	if err != nil {
		return err
	}
	_, err = i.tx.Exec(ctx, `UPDATE log.head SET epoch = $1, pos = $2 WHERE shard = 0`, x.Epoch, i.last)
	return err
}
