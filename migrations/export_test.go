package migrations

// What the tests outside the package need to see.
var (
	Files  = files
	UpWith = up
)
