// Package secret keeps secrets unreadable at rest.
//
// It owns the key-encryption key and the table auth.secrets. It guarantees that
// a sealed value opens only with a listed key and only under the purpose and the
// name it was sealed for, and that a name has one value for ever, whichever
// process makes it first. It must not know what any secret is for.
package secret
