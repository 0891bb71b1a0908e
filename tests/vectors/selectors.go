package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	composedSelectors = 2200
	mutatedSelectors  = 2400
	tokenSoups        = 700
)

var labelSets = []map[string]string{
	{},
	{"a": ""},
	{"a": "b"},
	{"a": "c", "b": ""},
	{"a": "in", "in": "notin", "notin": "in"},
	{"b": "b", "c": "c"},
	{"a": "b", "b": "c", "c": "a"},
	{"queue": "orders"},
	{"queue": "orders.v1", "team": "x"},
	{"queue": "ordersXv1", "team": ""},
	{"app.kubernetes.io/name": "worker", "queue": "orders"},
	{"name": "worker", "A": "b"},
	{"app.kubernetes.io/name": "", "1": "1", "a": "7"},
	{"a": "a", "b": "a", "c": "b", "in": "", "prio": "5"},
}

var keys = []string{
	"a", "a", "a", "b", "c", "A", "1", "in", "notin", "queue", "team", "name", "prio", "exists", "a_b", "a-b", "a.b", "x",
	"app.kubernetes.io/name", "example.com/a", "e/a", "1.2/3", strings.Repeat("k", 63), strings.Repeat("p", 253) + "/" + strings.Repeat("k", 63),
}

var values = []string{
	"", "", "a", "b", "b", "c", "in", "notin", "orders", "orders.v1", "ordersXv1", "worker", "x", "B", "1", "7", "007", "a_b", "a-b", "a..b",
	strings.Repeat("v", 63),
}

var badKeys = []string{
	"-a", "a-", "_a", ".a", "a.", "/a", "a/", "/", "//", "a//b", "a/b/c", "A/b", "a_b/c", "-a/b", "a-/b", "a..b/c", "é", "a é", "ключ", "a:b", "a*",
	"'a'", `"a"`, "`a`", "a%20", "a+b", "~a", "a\\", "a\u00a0", "\u2003a", "a\u200b", "\ufeffa", "a\v", "\fa", "a;b", "a|b", "[a]", "{a}", "a\x7f",
	strings.Repeat("k", 64), strings.Repeat("p", 254) + "/k", "p/" + strings.Repeat("k", 64), strings.Repeat("é", 32), strings.Repeat("a.", 127) + "/k",
	strings.Repeat("l", 64) + ".com/k", "\u0661", "a\u0301", "ſ", "K",
}

var badValues = []string{
	"-a", "a-", "_", ".", "..", "a/b", "/v1/login", "é", "a:b", "*", "a*", "'a'", `"a b"`, "a#b", "$x", "a+b", "日本", "🙂", "a\u00a0b", "a\v", "\u0661",
	strings.Repeat("v", 64), strings.Repeat("é", 32), strings.Repeat("v", 1000), "a@b", "-1", "+1", "1.5-",
}

var written = []string{
	"", " ", "\t\r\n ", ",", ",,", "a", "!a", "! a", " ! a ", "!!a", "!", "!,a", "a,", ",a", "a,,b", "a, b", "a b", "a !b", "a!", "a!b", "!a=b", "!a in (b)",
	"a=", "a==", "a!=", "a=,b", "a==,b=", "a!=,b", "=", "==", "!=", "=a", "a===b", "a=!b", "a= =b", "a==b", "a = b", "a\t==\nb", "a! =b", "a! = b", "a=b=c",
	"a=b c", "a=b,c", "a=b,a=b", "a=b,a=c", "a!=b,a!=c", "b,a", "b=1,a=2,b=3,a=4", "a=b!", "a=(b)", "a=in", "a=notin", "in=in", "notin=notin", "in", "notin", "!in",
	"in in (in)", "notin notin (notin)", "in in in", "in in", "notin in (in,notin)", "in,notin", "in notin (a)", "a IN (b)", "a NotIn (b)", "a in b",
	"a in", "a in(b)", "a in (b", "a in b)", "a in ()", "a in ( )", "a in (,)", "a in (,,)", "a in (,b)", "a in (b,)", "a in (b,,c)", "a in (,b,)", "a in (,,b,,)",
	"a in (b c)", "a in (b,c", "a in (b,", "a in (,", "a in (", "a in ((b))", "a in (b))", "a in (b) c", "a in (b),c", "a in (b)c", "a in (b)!c", "a in (!b)",
	"a in (b=c)", "a in (c,b,a,b)", "a in (c, b ,\ta)", "a in (in,notin)", "a in (=)", "a notin ()", "a notin (b,c)", "a notin b", "a notin (b", "a notin(b),b",
	"a notin (,)", "a in (B,b,1,_)", "a in (b,-)", "a in (b,é)", "a in(b)in", "a in (b), a in (c)", "a not in (b)", "not a", "a and b", "a&b", "a&&b", "a=~b", "a!~b",
	"a>1", "a<1", "a > 1", "a>", "a<", "a>,b", "a>b", "a>1.5", "a>1e3", "a>-1", "a>+1", "a>0x1", "a>007", "a>9223372036854775807", "a>9223372036854775808",
	"a>00000000000000000009223372036854775807", "a>1,b<2", "a>1,b in", "a>1,é", "a>1,b=é", "a>=1", "a<=1", "a<>1", "a>>1", "a>(1)", "a>1 b", "!a>1", "prio>3", "prio<3",
	"a>1_0", "a>\u0661", "a>99999999999999999999999999999999999999999999999999999999999999999",
	"queue=orders", "queue in (orders.v1)", "queue in (a.b,c)", "queue", "!queue", "queue in (a", "app.kubernetes.io/name=worker", "app.kubernetes.io/name",
	"uri=/v1/login", "queue='orders'", `queue="orders"`, `queue="or\"ders"`, "queue=orders;team=x", "queue=orders&team=x", "queue:orders", "queue=orders team=x",
	"a\x00", "\x00a", "a\x00b", "a\x00=b", "a=b\x00,c=d", "a=b \x00,c=d", "a in (b\x00)", "a in (b,\x00c)", "a=\x00=b", "\x00", "a,\x00", "a=b\x00\x00c",
	"a\u0085=b", "a\u3000b", "a\u2028", "a=b\u2029", "a\v=b", "a\f,b", "a=b\u00a0", "\ufeffa=b", "a，b", "a＝b", "（a）", "!\u200ba",
	"(a)", "()", "(", ")", ")a", "a)", "a(", "a(b)", "a in (a),(b)", "<", ">", "<a", ">a", "x in (foo,,baz),y,z notin ()",
	"a,a,a", "!a,a", "a,!a", "a=1,!a,a!=1,a in (1),a notin (2),a", "b notin (1),b in (2),a==1,a=1",
}

func selectorVectors() []byte {
	random := rand.New(rand.NewPCG(20240229, 36))
	seen := map[string]bool{}
	var cases []any
	add := func(text string) {
		if !seen[text] && utf8.ValidString(text) {
			seen[text] = true
			cases = append(cases, selectorCase(text))
		}
	}
	for _, text := range written {
		add(text)
	}
	for _, key := range append(append([]string{}, keys...), badKeys...) {
		for _, shape := range []string{"%", "!%", "%=a", "% in (a)", "a,%", "%>1"} {
			add(strings.ReplaceAll(shape, "%", key))
		}
	}
	for _, value := range append(append([]string{}, values...), badValues...) {
		for _, shape := range []string{"a=%", "a==%", "a!=%", "a in (%)", "a notin (b,%)", "a in (%,%)", "a>%", "a<%"} {
			add(strings.ReplaceAll(shape, "%", value))
		}
	}
	for range composedSelectors {
		add(composed(random))
	}
	for range mutatedSelectors {
		text := composed(random)
		for range 1 + random.IntN(3) {
			text = mutated(random, text)
		}
		add(text)
	}
	for range tokenSoups {
		add(soup(random))
	}

	var buffer bytes.Buffer
	buffer.WriteString(`{"labelSets":`)
	sets := make([]any, len(labelSets))
	for i, set := range labelSets {
		sets[i] = set
	}
	buffer.Write(lines(sets))
	buffer.WriteString(",\n\"cases\":")
	buffer.Write(lines(cases))
	buffer.WriteString("}\n")
	return buffer.Bytes()
}

// selectorCase is [input, error kind], or [input, "", canonical text, [[key, operator, values]...], matches], where
// matches has one character, 0 or 1, for each of labelSets.
func selectorCase(text string) any {
	root := field.WithPath(field.NewPath("root"))
	selector, err := labels.Parse(text, root)
	if err != nil {
		return []any{text, errorKind(err)}
	}
	requirements, _ := selector.Requirements()
	terms := make([]any, len(requirements))
	for i, requirement := range requirements {
		terms[i] = []any{requirement.Key(), string(requirement.Operator()), requirement.Values().List()}
	}
	var matches strings.Builder
	for _, set := range labelSets {
		if selector.Matches(labels.Set(set)) {
			matches.WriteByte('1')
		} else {
			matches.WriteByte('0')
		}
	}
	return []any{text, "", selector.String(), terms, matches.String()}
}

// errorKind tells an error of the grammar from an invalid key or value, by the field path that was asked for.
func errorKind(err error) string {
	text := strings.TrimPrefix(err.Error(), "unable to parse requirement: ")
	text = strings.TrimPrefix(text, "[")
	switch {
	case strings.HasPrefix(text, "found '"):
		return "syntax"
	case strings.HasPrefix(text, "root: "):
		return "key"
	case strings.HasPrefix(text, "root.values["):
		return "value"
	}
	panic("an error of no known kind: " + err.Error())
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func blank(random *rand.Rand) string {
	return pick(random, []string{"", "", "", "", " ", "  ", "\t", "\n", "\r\n"})
}

func composed(random *rand.Rand) string {
	count := 1 + random.IntN(4)
	if random.IntN(40) == 0 {
		count = 13 + random.IntN(4)
	}
	terms := make([]string, count)
	for i := range terms {
		terms[i] = blank(random) + term(random) + blank(random)
	}
	return strings.Join(terms, ",")
}

func term(random *rand.Rand) string {
	key := pick(random, keys)
	if random.IntN(60) == 0 {
		key = pick(random, badKeys)
	}
	value := func() string {
		if random.IntN(80) == 0 {
			return pick(random, badValues)
		}
		return pick(random, values)
	}
	space := func() string { return blank(random) }
	switch random.IntN(20) {
	case 0, 1, 2:
		return key
	case 3, 4:
		return "!" + space() + key
	case 5:
		return key + space() + pick(random, []string{">", "<"}) + space() + pick(random, []string{"1", "3", "5", "0", "x"})
	case 6, 7, 8, 9, 10, 11, 12:
		operator := pick(random, []string{" in", " notin"})
		count := random.IntN(5)
		terms := make([]string, count)
		for i := range terms {
			terms[i] = space() + value() + space()
		}
		return key + operator + space() + "(" + strings.Join(terms, ",") + ")"
	default:
		return key + space() + pick(random, []string{"=", "==", "!="}) + space() + value()
	}
}

func mutated(random *rand.Rand, text string) string {
	runes := []rune(text)
	noise := []rune("=!(),<>  \t\nabzAZ019-_./'\"\\é日\u00a0\u2028\ufeff\u0661🙂\x00\x01\x7f\v\f;:&|~*$#@%+")
	at := random.IntN(len(runes) + 1)
	if len(runes) == 0 {
		return string(pick(random, noise))
	}
	switch random.IntN(5) {
	case 0: // insert
		return string(runes[:at]) + string(pick(random, noise)) + string(runes[at:])
	case 1: // delete
		at = random.IntN(len(runes))
		return string(runes[:at]) + string(runes[at+1:])
	case 2: // replace
		at = random.IntN(len(runes))
		return string(runes[:at]) + string(pick(random, noise)) + string(runes[at+1:])
	case 3: // cut
		return string(runes[:at])
	default: // repeat a stretch
		to := at + random.IntN(len(runes)-at+1)
		to = min(to, at+12)
		return string(runes[:to]) + string(runes[at:to]) + string(runes[to:])
	}
}

func soup(random *rand.Rand) string {
	tokens := []string{"=", "==", "!=", "!", "(", ")", ",", "<", ">", "in", "notin", "a", "b", "a", "b", "1", " ", "e/a", "-", "\x00"}
	var text strings.Builder
	for range 1 + random.IntN(7) {
		text.WriteString(pick(random, tokens))
		text.WriteString(blank(random))
	}
	return text.String()
}
