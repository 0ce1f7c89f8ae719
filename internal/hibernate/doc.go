// Package hibernate counts a relay's bytes against a limit for a day, a week or a month, and
// says when the relay must rest (tor(1), "AccountingMax"). It reads no clock and opens nothing.
//
// A relay serves in one piece of each interval: it wakes at a time that differs between relays,
// serves at full speed until its bytes are used up, and rests until the interval ends. Many
// relays with limits are then spread over the interval, and clients have fast relays at all
// times instead of slow ones.
package hibernate
