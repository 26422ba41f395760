package eventstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// parameters holds the values of a statement's parameters in the binary format of
// Postgres, one after the other in one buffer that is used again and again. An
// append is a few dozen of them; to have a library find out the type of each anew
// took as long as the server needs for the append.
type parameters struct {
	buffer []byte
	ends   []int
}

func (p *parameters) reset() { p.buffer, p.ends = p.buffer[:0], p.ends[:0] }

// end ends a value: what was added since the one before.
func (p *parameters) end() { p.ends = append(p.ends, len(p.buffer)) }

// values returns the values. They are good until the next reset.
func (p *parameters) values() [][]byte {
	all := make([][]byte, len(p.ends))
	start := 0
	for i, end := range p.ends {
		all[i] = p.buffer[start:end:end]
		start = end
	}
	return all
}

func (p *parameters) text(s string) {
	p.buffer = append(p.buffer, s...)
	p.end()
}

func (p *parameters) bytes(b []byte) {
	p.buffer = append(p.buffer, b...)
	p.end()
}

func (p *parameters) int4(n int) {
	p.addInt32(n)
	p.end()
}

func (p *parameters) time(t time.Time) {
	p.addInt64(microseconds(t))
	p.end()
}

// array begins an array of n elements without nulls, which follow, and then end.
func (p *parameters) array(element uint32, n int) {
	if n == 0 {
		p.addInt32(0) // dimensions
		p.addInt32(0) // no nulls
		p.addInt32(int(element))
		return
	}
	p.addInt32(1)
	p.addInt32(0)
	p.addInt32(int(element))
	p.addInt32(n)
	p.addInt32(1) // the first index
}

func (p *parameters) textElement(s string) {
	p.addInt32(len(s))
	p.buffer = append(p.buffer, s...)
}

func (p *parameters) bytesElement(b []byte) {
	p.addInt32(len(b))
	p.buffer = append(p.buffer, b...)
}

func (p *parameters) int4Element(n int) {
	p.addInt32(4)
	p.addInt32(n)
}

func (p *parameters) int2Element(n int) {
	p.addInt32(2)
	p.buffer = binary.BigEndian.AppendUint16(p.buffer, uint16(n))
}

func (p *parameters) timeElement(t time.Time) {
	p.addInt32(8)
	p.addInt64(microseconds(t))
}

func (p *parameters) addInt32(n int) { p.buffer = binary.BigEndian.AppendUint32(p.buffer, uint32(n)) }

func (p *parameters) addInt64(n int64) {
	p.buffer = binary.BigEndian.AppendUint64(p.buffer, uint64(n))
}

// microseconds counts from the beginning of the year 2000, as Postgres does.
func microseconds(t time.Time) int64 {
	const from1970to2000 = 946_684_800_000_000
	return t.UnixMicro() - from1970to2000
}

// answeredSingle reads what log.append_single answers.
func answeredSingle(row [][]byte) (base int64, codes []int, err error) {
	switch base := int64(binary.BigEndian.Uint64(row[0])); base {
	case -1:
		return 0, []int{codeKnown}, nil
	case -2:
		return 0, []int{codeMoved}, nil
	default:
		return base, nil, nil
	}
}

// answeredOne reads what log.append_one answers.
func answeredOne(row [][]byte) (base int64, codes []int, err error) {
	return int64(binary.BigEndian.Uint64(row[0])), []int{int(binary.BigEndian.Uint32(row[1]))}, nil
}

// answeredBatch reads what log.append_batch answers: the outcomes are an array, or
// null.
func answeredBatch(row [][]byte) (base int64, codes []int, err error) {
	base = int64(binary.BigEndian.Uint64(row[0]))
	if row[1] == nil {
		return base, nil, nil
	}
	if err := pgtype.NewMap().Scan(pgtype.Int4ArrayOID, pgtype.BinaryFormatCode, row[1], &codes); err != nil {
		return 0, nil, fmt.Errorf("read the outcomes of a batch: %w", err)
	}
	return base, codes, nil
}

// keyTaken says whether an append failed because the operation has a receipt.
func keyTaken(err error) bool {
	const uniqueViolation = "23505"
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == uniqueViolation && pg.TableName == "operations"
}

// column adds an array with one element for each row.
func column[T any](p *parameters, element uint32, rows []T, add func(T)) {
	p.array(element, len(rows))
	for _, row := range rows {
		add(row)
	}
	p.end()
}

// texts, blobs and int4s add an array of what get returns of each row.
func texts[T any](p *parameters, rows []T, get func(T) string) {
	column(p, pgtype.TextOID, rows, func(row T) { p.textElement(get(row)) })
}

func blobs[T any](p *parameters, rows []T, get func(T) []byte) {
	column(p, pgtype.ByteaOID, rows, func(row T) { p.bytesElement(get(row)) })
}

func int4s[T any](p *parameters, rows []T, get func(T) int) {
	column(p, pgtype.Int4OID, rows, func(row T) { p.int4Element(get(row)) })
}
