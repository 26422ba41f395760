package domain

import (
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// An AgentID is the public number of an agent: a decimal uint256 without sign or
// leading zeros, from 1 (^[1-9]\d{0,77}$). ERC-8004 calls it the agent id.
type AgentID string

// An Address is an EVM address, 0x and 40 hex digits. The edge has checked its
// EIP-55 checksum and put it in that form; addresses are compared without case.
type Address string

// Is says whether both name the same account.
func (a Address) Is(b Address) bool { return strings.EqualFold(string(a), string(b)) }

var addressShape = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)

// usable says whether a can hold money or rights: the zero address cannot.
func (a Address) usable() bool {
	return addressShape.MatchString(string(a)) && strings.Trim(string(a), "0x") != ""
}

// An Amount is a quantity of a token in units of that token, as a decimal string:
// 1 to 30 digits, and after a point 1 to 18 more (^\d{1,30}(\.\d{1,18})?$). It is
// a string from end to end, since floating point cannot hold money.
type Amount string

var amountShape = regexp.MustCompile(`^\d{1,30}(\.\d{1,18})?$`)

// Base returns the amount in base units of a token with so many decimals. The
// error is a sentence for the caller: an amount is above zero and has neither
// leading zeros nor more fraction digits than its token.
func (a Amount) Base(decimals int) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(string(a), ".")
	switch {
	case !amountShape.MatchString(string(a)):
		return nil, errors.New("write the amount as a decimal number of token units, such as 25 or 0.5")
	case len(whole) > 1 && whole[0] == '0':
		return nil, errors.New("write the amount without leading zeros")
	case len(fraction) > decimals:
		return nil, errors.New("the amount has more fraction digits than the token")
	}
	base, _ := new(big.Int).SetString(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10)
	if base.Sign() == 0 {
		return nil, errors.New("the amount must be above zero")
	}
	return base, nil
}

// Cmp compares two amounts of one token exactly: -1, 0 or +1. What is no amount
// counts as zero.
func (a Amount) Cmp(b Amount) int {
	return a.rat().Cmp(b.rat())
}

// rat reads only what has the shape of an amount: big.Rat also takes exponents,
// and would spend all memory on a large one.
func (a Amount) rat() *big.Rat {
	r := new(big.Rat)
	if amountShape.MatchString(string(a)) {
		r.SetString(string(a))
	}
	return r
}

// A RequestID names a quote request: "rq_" and 20 characters of [0-9a-z].
type RequestID string

// A TaskID names the hire that a picked request became: "tk_" and the 20
// characters of the request.
type TaskID string

// A QuoteID names a quote and, within it, its request: "qt_", the 20 characters
// of the request and 20 of its own. So a quote is found without a look-up.
type QuoteID string

const idLength = 20 // characters after the prefix

var quoteShape = regexp.MustCompile(`^qt_[0-9a-z]{40}$`)

// body returns the id without its prefix.
func (id RequestID) body() string { return strings.TrimPrefix(string(id), "rq_") }

// task returns the id of the hire this request becomes.
func (id RequestID) task() TaskID { return TaskID("tk_" + id.body()) }

// newQuote returns the id of the quote that the operation makes.
func (id RequestID) newQuote(m Meta) QuoteID {
	return QuoteID("qt_" + id.body() + strings.TrimPrefix(m.NewID("qt"), "qt_"))
}

// Request returns the request the quote belongs to, or "" if id is no quote's.
func (id QuoteID) Request() RequestID {
	if !quoteShape.MatchString(string(id)) {
		return ""
	}
	return RequestID("rq_" + id[len("qt_"):len("qt_")+idLength])
}

// checkText refuses text that says nothing or carries control characters. Its
// length is bounded where arguments enter.
func checkText(field, s string) error {
	if strings.TrimFunc(s, invisible) == "" {
		return Refuse(Invalid, "write something here; blank text says nothing").At(field)
	}
	return checkNote(field, s)
}

var signatureShape = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*\([A-Za-z0-9_$,()\[\]]*\)$`)

// checkSignature refuses what is no signature of a contract function.
func checkSignature(field, s string) error {
	if !signatureShape.MatchString(s) {
		return Refuse(Invalid, "give the signature of a function with the types of its arguments, such as mint(address,uint256)").At(field)
	}
	return nil
}

// invisible says whether a letter shows nothing: space, format characters, and the
// fillers that count as letters.
func invisible(r rune) bool {
	return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune("\u115f\u1160\u2800\u3164\uffa0", r)
}

// checkNote is checkText for text that may be absent.
func checkNote(field, s string) error {
	bad := func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
	}
	if strings.ContainsFunc(s, bad) {
		return Refuse(Invalid, "remove the control characters; only line breaks and tabs are allowed").At(field)
	}
	return nil
}

// checkAddress refuses what is no account.
func checkAddress(field string, a Address) error {
	if !a.usable() {
		return Refuse(Invalid, "give an address of 0x and 40 hex digits that is not zero").At(field)
	}
	return nil
}

// checkTexts is checkText for each of a list.
func checkTexts(field string, texts []string) error {
	for i, s := range texts {
		if err := checkText(item(field, i), s); err != nil {
			return err
		}
	}
	return nil
}

// checkOnce refuses a list that names something twice.
func checkOnce[T comparable](field string, list []T) error {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return Refuse(Invalid, "name each of these once").At(item(field, i))
		}
	}
	return nil
}

// item is the JSON pointer of an item of a list.
func item(field string, i int) string { return field + "/" + strconv.Itoa(i) }

// first returns the first refusal, so that checks read as a list.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
