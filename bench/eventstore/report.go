package main

import (
	"fmt"
	"io"
	"path/filepath"

	"sidequest/bench/rounds"
)

// A report gathers what the parts found.
type report struct {
	rows  []rounds.Row
	plots map[string]rounds.Plot // by the name of their file
}

func (r *report) add(rows ...rounds.Row) { r.rows = append(r.rows, rows...) }

func (r *report) draw(file string, p rounds.Plot) {
	if r.plots == nil {
		r.plots = map[string]rounds.Plot{}
	}
	r.plots[file] = p
}

// finish shows the rows and saves them, and the pictures if there is a folder
// for them.
func (b *bench) finish(out io.Writer) error {
	if err := rounds.Table(out, b.rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	if b.short {
		fmt.Fprintln(out, "a short run: the figures mean nothing")
	}
	if err := rounds.Save(filepath.Join(b.out, "eventstore.json"), b.rows); err != nil {
		return err
	}
	for file, p := range b.plots {
		folder := b.pictures
		if folder == "" {
			folder = b.out
		}
		if err := p.Save(filepath.Join(folder, file)); err != nil {
			return err
		}
	}
	return nil
}
