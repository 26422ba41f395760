// Package torture makes the program fail in every way we could think of, while
// agents work in it, and then checks the whole history.
//
// It owns the faults, the load and the checker. The program under it is the real
// one, in processes of its own, built with failpoints and the race detector,
// beside a Postgres cluster and a NATS server that belong to the run alone. What
// the short form checks in make test, make torture repeats at length, and writes
// docs/reliability.md. The package must not know how anything is done: it speaks
// HTTP to the program and reads its tables.
package torture
