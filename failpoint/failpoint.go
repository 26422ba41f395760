// Package failpoint names the moments at which a fault would do the most harm, so
// that a test can make it happen right there.
//
// It owns the list of moments. In the program as it is built for use, reaching one
// is nothing at all. Built with the tag failpoints, a process can be told by its
// environment to kill, stop or delay itself at the n-th reach of a point. The
// package must not know what happens around the moments.
package failpoint

// A Point is a named moment, such as "write.committed".
type Point string

// The points on the way of a write.
const (
	WriteLooked    Point = "write.looked"    // receipt and streams are read, nothing is decided
	WriteAppending Point = "write.appending" // a batch is about to be sent
	WriteCommitted Point = "write.committed" // it is durable and nobody knows
	WriteAnswered  Point = "write.answered"  // its outcome is known, no snapshot is kept yet
)

// The points on the way of an event to JetStream.
const (
	RelayPublished Point = "relay.published" // sent, not acknowledged
	RelayCopied    Point = "relay.copied"    // acknowledged
	RelayRenewing  Point = "relay.renewing"  // the lease is about to be renewed
	RelayPurged    Point = "relay.purged"    // the copy is empty and is to begin anew
)

// The points on the way of an event into a view.
const (
	ViewHeld       Point = "view.held"       // the checkpoint is locked
	ViewQueued     Point = "view.queued"     // the effects are about to be sent
	ViewApplied    Point = "view.applied"    // they are made, not committed
	ViewCommitted  Point = "view.committed"  // committed, and nobody was woken
	ViewRebuilt    Point = "view.rebuilt"    // the new tables are nearly level, beside the live ones
	ViewExchanging Point = "view.exchanging" // they have the live ones' name, not committed
	ViewExchanged  Point = "view.exchanged"  // committed, the old tables are still there
)

// The points on the way of a notice to a listener.
const (
	FeedTailed Point = "feed.tailed" // new rows are in the memory of the process
	FeedSent   Point = "feed.sent"   // frames are on the wire of one stream
)

// The points on the way of a notice to a webhook.
const (
	HookClaimed  Point = "hook.claimed"  // lanes are leased, nothing is sent
	HookSent     Point = "hook.sent"     // a receiver answered, and nobody else knows
	HookRecorded Point = "hook.recorded" // that it did is committed
)

// The points of what runs under a lease.
const (
	ExpiryDue      Point = "expiry.due"      // a request is about to be recorded as expired
	ExpiryRecorded Point = "expiry.recorded" // it is
	SealSigned     Point = "seal.signed"     // a seal is made, not committed
	SealStored     Point = "seal.stored"     // committed
)

// All returns every point that agents and commands come by, which is every one but
// those of [Webhooks].
func All() []Point {
	return []Point{
		WriteLooked, WriteAppending, WriteCommitted, WriteAnswered,
		RelayPublished, RelayCopied, RelayRenewing, RelayPurged,
		ViewHeld, ViewQueued, ViewApplied, ViewCommitted, ViewRebuilt, ViewExchanging, ViewExchanged,
		FeedTailed, FeedSent,
		ExpiryDue, ExpiryRecorded, SealSigned, SealStored,
	}
}

// Webhooks returns the points that are come by where there is a receiver.
func Webhooks() []Point { return []Point{HookClaimed, HookSent, HookRecorded} }
