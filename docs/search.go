package docs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// editionsKept is how many versions of the pages the index has room for. Copies of
// the program before and after a change search at the same time; one whose edition
// was dropped fills it in again.
const editionsKept = 4

// An Index finds sections by their words, in Postgres. Each edition of the book has
// its own part of it, so that copies of two versions of the program find each what
// they show.
type Index struct {
	DB   *pgxpool.Pool
	Book *Book
}

// A Hit is a section that was found.
type Hit struct {
	Page    Page
	Section string // its heading
	Anchor  string // of the heading, "" for the beginning of the page
	Snippet string // about where the words stand
}

type searched struct {
	slug    string
	section Section
}

// searchable are the sections of the pages for agents. Parts repeat their page.
func (b *Book) searchable() []searched {
	var all []searched
	for _, p := range b.Pages {
		if p.Engineers || p.Part {
			continue
		}
		for _, s := range p.Sections() {
			if s.Text != "" {
				all = append(all, searched{p.Slug, s})
			}
		}
	}
	return all
}

// Fill puts the book into the index unless it is there, and drops old editions.
func (x *Index) Fill(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, x.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO docs.editions (edition)
			VALUES ($1)
			ON CONFLICT (edition) DO NOTHING`, x.Book.Edition)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		var batch pgx.Batch
		for i, s := range x.Book.searchable() {
			page, _ := x.Book.Find(s.slug)
			batch.Queue(`
				INSERT INTO docs.sections (edition, ord, slug, title, section, anchor, body)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				x.Book.Edition, i, s.slug, page.Title, s.section.Title, s.section.Anchor, s.section.Text)
		}
		batch.Queue(`
			DELETE FROM docs.editions
			WHERE edition NOT IN (
				SELECT edition
				FROM docs.editions
				ORDER BY filled_at DESC, edition
				LIMIT $1)`, editionsKept)
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return fmt.Errorf("fill the index of the pages: %w", err)
	}
	return nil
}

// Search returns the sections that fit best, at most limit. Those that have all the
// words come first, those that have some of them after.
func (x *Index) Search(ctx context.Context, query string, limit int) ([]Hit, error) {
	hits, known, err := x.search(ctx, query, limit)
	if err == nil && !known {
		if err = x.Fill(ctx); err == nil {
			hits, _, err = x.search(ctx, query, limit)
		}
	}
	return hits, err
}

// search says as well whether the index knows this edition.
func (x *Index) search(ctx context.Context, query string, limit int) (hits []Hit, known bool, err error) {
	rows, err := x.DB.Query(ctx, `
		WITH asked AS (
			SELECT plainto_tsquery('english', $2) AS whole),
		loose AS (
			SELECT whole, replace(whole::text, '&', '|')::tsquery AS any_of
			FROM asked)
		SELECT s.slug, s.section, s.anchor,
			ts_headline('english', s.body, l.any_of, 'StartSel="", StopSel="", MaxWords=40, MinWords=20, MaxFragments=1')
		FROM docs.editions AS e
		CROSS JOIN loose AS l
		LEFT JOIN docs.sections AS s ON s.edition = e.edition AND s.words @@ l.any_of
		WHERE e.edition = $1
		ORDER BY s.words @@ l.whole DESC NULLS LAST, ts_rank_cd(s.words, l.any_of, 1) DESC NULLS LAST, s.ord
		LIMIT $3`, x.Book.Edition, query, limit)
	if err != nil {
		return nil, false, fmt.Errorf("search the pages: %w", err)
	}
	hits = []Hit{}
	var slug, section, anchor, snippet *string
	_, err = pgx.ForEachRow(rows, []any{&slug, &section, &anchor, &snippet}, func() error {
		known = true
		if slug == nil {
			return nil // the edition is there, and nothing fits
		}
		page, _ := x.Book.Find(*slug)
		hits = append(hits, Hit{page, *section, *anchor, *snippet})
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("search the pages: %w", err)
	}
	return hits, known, nil
}
