-- The sections of the documentation, for searching. Each edition of the pages has its
-- own, so that copies of two versions of the program each find what they show. All of
-- it comes from the program, which fills in what it misses.
CREATE SCHEMA docs;

CREATE TABLE docs.editions (
  edition   text COLLATE "C" PRIMARY KEY,
  filled_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE docs.sections (
  edition text COLLATE "C" NOT NULL REFERENCES docs.editions ON DELETE CASCADE,
  ord     int  NOT NULL,
  slug    text NOT NULL,
  title   text NOT NULL,
  section text NOT NULL,
  anchor  text NOT NULL,
  body    text NOT NULL,
  words   tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(to_tsvector('english', title || ' ' || section), 'A') || setweight(to_tsvector('english', body), 'D')) STORED,
  PRIMARY KEY (edition, ord)
);

GRANT USAGE ON SCHEMA docs TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON docs.editions, docs.sections TO sidequest_app;
