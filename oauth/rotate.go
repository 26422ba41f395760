package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	keyLife       = 90 * 24 * time.Hour // how long a key signs
	keyNotice     = 15 * time.Minute    // how long it is published before: caches of the key set last five
	keyRetirement = MaxTokenLife + time.Hour
)

// Advance moves every key on whose time has come: a key that has signed for long
// enough gets a successor, the successor takes over once all know it, and a
// retired key goes with the last token it signed. It may be repeated at any time.
func (k *Keys) Advance(ctx context.Context) error {
	return k.change(ctx, func(list []storedKey) ([]storedKey, error) { return advance(list, time.Now().UTC()) })
}

// Rotate makes a successor of the active key before its time. It takes over after
// a quarter of an hour, and no token ends.
func (k *Keys) Rotate(ctx context.Context) error {
	return k.change(ctx, func(list []storedKey) ([]storedKey, error) {
		if hasStatus(list, keyNext) {
			return list, nil
		}
		next, err := newKey(keyNext, time.Now())
		return append(list, next), err
	})
}

// Replace makes a new key and forgets all others, which someone else may have. It
// ends every access token within seconds; refresh tokens stay good.
func (k *Keys) Replace(ctx context.Context) error {
	return k.change(ctx, func([]storedKey) ([]storedKey, error) {
		key, err := newKey(keyActive, time.Now())
		return []storedKey{key}, err
	})
}

// change replaces the list by what do makes of it, unless that is the same.
func (k *Keys) change(ctx context.Context, do func([]storedKey) ([]storedKey, error)) error {
	err := k.vault.Update(ctx, keysName, func(raw []byte) ([]byte, error) {
		var list []storedKey
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, errors.New("the list does not parse")
		}
		list, err := do(list)
		if err != nil {
			return nil, err
		}
		return json.Marshal(list)
	})
	if err != nil {
		return fmt.Errorf("rotate the signing keys: %w", err)
	}
	return k.load(ctx)
}

func advance(list []storedKey, now time.Time) ([]storedKey, error) {
	list = slices.DeleteFunc(list, func(s storedKey) bool { return !s.lives(now) })
	takeOver := slices.ContainsFunc(list, func(s storedKey) bool { return s.Status == keyNext && !now.Before(s.Since.Add(keyNotice)) })
	for i, s := range list {
		switch {
		case takeOver && s.Status == keyActive:
			list[i].Status, list[i].Since = keyRetired, now
		case takeOver && s.Status == keyNext:
			list[i].Status, list[i].Since = keyActive, now
		}
	}
	old := slices.ContainsFunc(list, func(s storedKey) bool { return s.Status == keyActive && !now.Before(s.Since.Add(keyLife)) })
	if !old || hasStatus(list, keyNext) {
		return list, nil
	}
	next, err := newKey(keyNext, now)
	return append(list, next), err
}

func hasStatus(list []storedKey, status keyStatus) bool {
	return slices.ContainsFunc(list, func(s storedKey) bool { return s.Status == status })
}
