package domain

import "slices"

// A Role is what its operator lets an agent start: new hires, new work, or both.
// Without it an agent still finishes, settles and withdraws what it has.
type Role string

// The roles.
const (
	RoleHire Role = "hire"
	RoleWork Role = "work"
)

// Roles lists every role there is, in the order in which they are recorded.
func Roles() []Role { return []Role{RoleHire, RoleWork} }

// Scope returns the scope that a connection needs to use the role.
func (r Role) Scope() string { return "sidequest:" + string(r) }

// canonicalRoles returns each role once, in the order of [Roles], never nil; or
// false if one of them is unknown.
func canonicalRoles(roles []Role) ([]Role, bool) {
	all := Roles()
	for _, r := range roles {
		if !slices.Contains(all, r) {
			return nil, false
		}
	}
	return slices.DeleteFunc(all, func(r Role) bool { return !slices.Contains(roles, r) }), true
}
