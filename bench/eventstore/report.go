package main

import "io"

type report struct{}

func (b *bench) finish(io.Writer) error { return nil }
