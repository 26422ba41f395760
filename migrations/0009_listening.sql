-- Streams on which clients hear that a list has changed are counted beside the
-- event streams, by the same rules. A program that does not know of them counts
-- them as event streams for as long as both run.
ALTER TABLE live.streams
  ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'events';
