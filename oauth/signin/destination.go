package signin

import (
	"net/url"
	"strings"
)

const longestDestination = 512 // bytes

// Destination returns where to go after a sign-in: a path of this deployment. For
// anything that a browser could take for another place it is "/".
func Destination(wish string) string {
	if len(wish) > longestDestination || !strings.HasPrefix(wish, "/") || strings.HasPrefix(wish, "//") {
		return "/"
	}
	// Browsers drop tabs and line breaks, and read a backslash as a slash.
	if strings.ContainsFunc(wish, func(r rune) bool { return r <= ' ' || r == '\\' || r > '~' }) {
		return "/"
	}
	u, err := url.Parse(wish)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil {
		return "/"
	}
	return wish
}
