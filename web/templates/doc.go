// Package templates draws the pages: templ components and the view models they
// are drawn from. A view model holds what a person reads, already in words,
// and no type of the gateway's rooms; a component serves both the page and the
// fragment that replaces a part of it. Whatever a view model holds is shown as
// text, never as markup.
package templates
