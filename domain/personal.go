package domain

// Personal is a text about a person, such as a name or an e-mail address. It is
// recorded sealed with a key of its subject, so that it can be erased: once that
// key is destroyed, nobody can read it again, in the log or in any copy of it,
// while the log itself stays as it was.
type Personal struct {
	Subject string `json:"subject"`          // who it is about; its key is theirs
	Text    string `json:"text,omitempty"`   // "" on the record, and for ever once erased
	Sealed  []byte `json:"sealed,omitempty"` // on the record only
}

// An ErasingEvent says that nothing personal about a subject may be readable from
// now on.
type ErasingEvent interface {
	Typed
	ErasesSubject() string
}

// A PersonalEvent has fields that are [Personal]. MapPersonal returns the event
// with each of them replaced; the event store seals and opens them with it.
type PersonalEvent interface {
	Typed
	MapPersonal(change func(Personal) (Personal, error)) (Typed, error)
}
