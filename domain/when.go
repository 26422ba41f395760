package domain

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A When is a moment as a caller writes it: Unix seconds (a JSON number), an
// RFC 3339 time, or a duration from now such as "72h", "3d" or "1d12h" (units d,
// h, m and s). It keeps what was written; [When.Resolve] gives the moment.
type When string

// UnmarshalJSON takes a number or a string.
func (w *When) UnmarshalJSON(data []byte) error {
	var n json.Number // takes a number, and a string that holds one
	if json.Unmarshal(data, &n) == nil && n != "" {
		*w = When(n)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return errors.New("a time is a number of Unix seconds or a string")
	}
	*w = When(s)
	return nil
}

// MarshalJSON writes Unix seconds as a number and all else as a string.
func (w When) MarshalJSON() ([]byte, error) {
	if unixShape.MatchString(string(w)) {
		return []byte(w), nil
	}
	return json.Marshal(string(w))
}

var (
	unixShape     = regexp.MustCompile(`^(0|[1-9]\d{0,11})$`) // to the year 33658
	durationShape = regexp.MustCompile(`^(\d{1,9}[dhms])+$`)
	durationPart  = regexp.MustCompile(`\d+[dhms]`)
)

// Resolve returns the moment in whole seconds, UTC, rounded down: chains count
// in seconds. The error is a sentence for the caller.
func (w When) Resolve(now time.Time) (time.Time, error) {
	at, err := w.moment(now)
	if err != nil {
		return time.Time{}, err
	}
	if year := at.Year(); year < 1970 || year > 9999 {
		return time.Time{}, errors.New("give a time in the years 1970 to 9999")
	}
	return at.UTC().Truncate(time.Second), nil
}

func (w When) moment(now time.Time) (time.Time, error) {
	s := string(w)
	if unixShape.MatchString(s) {
		n, err := strconv.ParseInt(s, 10, 64)
		return time.Unix(n, 0), err
	}
	if durationShape.MatchString(s) {
		return after(now, durationPart.FindAllString(s, -1))
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("give a time as Unix seconds, in RFC 3339, or as a duration such as 72h or 3d")
	}
	return at, nil
}

// after adds the parts of a duration to now. A hundred years bound each sum, far
// below where a time.Duration overflows.
func after(now time.Time, parts []string) (time.Time, error) {
	const century = 100 * 365 * 24 * 60 * 60
	seconds := map[byte]int{'d': 24 * 60 * 60, 'h': 60 * 60, 'm': 60, 's': 1}
	total := 0
	for _, p := range parts {
		unit := p[len(p)-1]
		n, err := strconv.Atoi(strings.TrimSuffix(p, string(unit)))
		if err != nil {
			return time.Time{}, err
		}
		if total += n * seconds[unit]; total > century {
			return time.Time{}, errors.New("give a duration below 100 years")
		}
	}
	return now.Add(time.Duration(total) * time.Second), nil
}
