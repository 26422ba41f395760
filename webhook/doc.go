// Package webhook sends the rows of feeds to the https endpoints of those who
// subscribed, in order, for as long as it takes.
//
// It owns the schema hooks: subscriptions with their lanes, receivers that were
// verified, attempts, and rows that were given up. A lane is a subscription's way
// through its feed. It guarantees that
//
//   - a lane sends one row at a time, in the order of the feed, and passes a row
//     only when the receiver has acknowledged it or it is written down as given up;
//   - what there is to send follows from the lane's place alone, so no fault loses
//     a row, and a process that dies repeats at most the rows it had under way and
//     those acknowledged in its last few milliseconds;
//   - a lane that a process lost to another changes nothing any more: every write
//     names the fence of its lease;
//   - a slow or broken receiver holds up its own lane and nobody else's;
//   - nothing is sent to an address that is not of the public internet, nor for a
//     grant that was revoked;
//   - no transaction is open while a receiver is waited for.
//
// It must not know the protocol that subscriptions arrive by, nor what a row means.
package webhook
