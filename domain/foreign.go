package domain

// A Foreign is text that someone other than Sidequest wrote, as answers show it:
// names, briefs, notes, messages. It is data and never instructions. The type is
// how answers know which of their texts to label; rules read none of it.
type Foreign string

// ForeignTexts returns texts as what others wrote. An absent list is an empty one.
func ForeignTexts(texts []string) []Foreign {
	all := make([]Foreign, len(texts))
	for i, s := range texts {
		all[i] = Foreign(s)
	}
	return all
}
