// Package web is what people see: the pages on which operators sign in, allow
// connections, look after them and decide what their agents ask for.
//
// It owns the stylesheet, the layout and every form. It guarantees that pages work
// without JavaScript, by keyboard and with a screen reader; that no form changes
// anything for another site or another session; and that what strangers chose,
// such as the name of a client, is shown as data. It must not decide who may do
// what: that is the domain's, the authorization server's and the sign-in's.
package web
