package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	anyFloats     = 900
	likelyFloats  = 1100
	dyadicFloats  = 300
	decimalTexts  = 900
	nearTheBounds = 300
)

var (
	nano    = big.NewInt(1_000_000_000)
	largest = big.NewInt(math.MaxInt64 / 1000)
)

var writtenNumbers = []string{
	"0", "-0", "+0", "0.0", "-0.0", "0e5", "-0e-5", "00", "007", "1", "-1", "+1", "52443", "329.5", "0.0004", "0.0015", "1e+06", "1.5e-05", "0.1", "52000", "1000", "999",
	"1001", "-52000", "1000000", "1234000", "140.226", "214748365", "0.30000000000000004", "3.0000000000000004", "2.5e18", "2.5e+18", "1e18", "1e3", "1E3", "1e-3", "1E-9",
	"1e-10", "-1e-10", "5e-10", "1.5e-9", "2.5e-9", "3.5e-9", "-2.5e-9", "-3.5e-9", "2.50000000000000000001e-9", "2.49999999999999999999e-9", "4.9e-324", "5e-324", "-5e-324",
	"2.2250738585072014e-308", "1.7976931348623157e+308", "-1.7976931348623157e+308", "1e308", "1e309", "1e-400", "1e21", "1e+21", "1.5e21", "1e22", "123456789e15",
	"9223372036854775", "-9223372036854775", "9223372036854775.0", "9223372036854774.999999999", "9223372036854775.000000001", "9223372036854775.0000000005",
	"9223372036854775.00000000050000001", "9223372036854775.0000000004", "-9223372036854775.000000001", "9223372036854775.8", "9223372036854776", "9223372036854774", "9223372036854775807",
	"9223372036854775808", "-9223372036854775807", "-9223372036854775808", "9223372036854775806.5", "18446744073709551616", "9007199254740992", "9007199254740993", "9007199254740991",
	"1.", ".5", "-.5", "1.e3", ".5e1", "0.000000001", "0.0000000005", "0.0000000015", "0.9999999995", "0.9999999985", "999.9999999995", "0.999999999", "1.0000000005", "1.0000000015",
	"NaN", "nan", "NAN", "+Inf", "-Inf", "Inf", "inf", "INF", "infinity", "-Infinity", "+infinity",
	"", " ", "1 ", " 1", "1\n", "\t1", "1,5", "0x10", "1e", "e5", ".", "+", "-", "--1", "+-1", "1e+", "1e1.5", "NaN ", "+NaN", "-NaN", "infin", "∞", "1.5.2", "1k", "1Mi", "100m",
	"\u0661\u0662", "\u00b2", "１", "1\u00a0", "−1", "null", "true", "abc", "1e5e5", "0b1", "\x00", "1\x00", "NaN1", "-.", ".e1", "1..2",
}

func quantityVectors() []byte {
	random := rand.New(rand.NewPCG(20240301, 9))
	seen := map[string]bool{}
	var cases []any
	add := func(text string) {
		if !seen[text] {
			seen[text] = true
			cases = append(cases, quantityCase(text))
		}
	}
	addFloat := func(x float64) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		add(strconv.FormatFloat(x, pick(random, []byte{'f', 'f', 'g', 'e', 'E'}), -1, 64))
	}
	for _, text := range writtenNumbers {
		add(text)
	}
	for range anyFloats {
		addFloat(math.Float64frombits(random.Uint64()))
	}
	for range likelyFloats {
		x := (random.Float64() - 0.2) * math.Pow10(random.IntN(32)-13)
		if random.IntN(2) == 0 {
			digits := math.Pow10(random.IntN(5))
			x = math.Round(x*digits) / digits
		}
		addFloat(x)
	}
	for range dyadicFloats { // odd multiples of 2^-10 have ten places: each is a tie
		addFloat(float64(random.IntN(1<<22)-1<<21) / 1024)
	}
	for range decimalTexts {
		add(decimalText(random))
	}
	for range nearTheBounds {
		offset := new(big.Int).SetInt64(random.Int64N(4_000) - 2_000)
		base := new(big.Int).Mul(largest, nano)
		if random.IntN(4) == 0 {
			base.Mul(big.NewInt(math.MaxInt64), nano)
			offset.Mul(offset, nano)
		}
		text := plain(base.Add(base, offset))
		if random.IntN(3) == 0 {
			text = "-" + text
		}
		add(text)
	}
	return append(lines(cases), '\n')
}

// decimalText is a number with up to 14 places, often a tie at the tenth, sometimes with an exponent.
func decimalText(random *rand.Rand) string {
	var text strings.Builder
	text.WriteString(pick(random, []string{"", "", "", "-", "+"}))
	text.WriteString(strconv.FormatInt(random.Int64N(int64(math.Pow10(random.IntN(16)))+1), 10))
	switch random.IntN(4) {
	case 0:
		fmt.Fprintf(&text, ".%09d5", random.IntN(1_000_000_000))
	case 1:
		fmt.Fprintf(&text, ".%09d5%s", random.IntN(1_000), pick(random, []string{"0", "00", "1", "0001"}))
	case 2:
		text.WriteByte('.')
		for range random.IntN(15) {
			text.WriteByte(byte('0' + random.IntN(10)))
		}
	default:
		text.WriteString(strings.Repeat("0", random.IntN(12)))
	}
	if random.IntN(3) == 0 {
		fmt.Fprintf(&text, "e%+d", random.IntN(41)-20)
	}
	return text.String()
}

// quantityCase is [input, kind, canonical, milli]. The kind is "ok", "large" (above what the HPA can hold), "notFinite"
// or "refused". canonical is null above an int64. milli, the MilliValue() of what the HPA receives, is null where it would
// wrap, and for negative values, of which it gets some wrong (scaledValue takes every big negative number for a small one).
//
// The number is not handed over as plain text: ParseQuantity keeps a text with 3, 6 or 9 places as it stands and String()
// then prints it uncanonically, "140.226" for 140226m.
func quantityCase(text string) any {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return []any{text, "refused", nil, nil}
	case err == nil && (math.IsNaN(x) || math.IsInf(x, 0)):
		return []any{text, "notFinite", nil, nil}
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("big.Rat takes less than ParseFloat: " + text)
	}
	nanos := roundToNano(exact)
	kind := "ok"
	size := new(big.Int).Abs(nanos)
	if size.Cmp(new(big.Int).Mul(largest, nano)) > 0 {
		kind = "large"
	}
	if size.Cmp(new(big.Int).Mul(big.NewInt(math.MaxInt64), nano)) > 0 {
		return []any{text, kind, nil, nil}
	}
	canonical := resource.NewDecimalQuantity(*inf.NewDecBig(nanos, 9), resource.DecimalSI).String()
	received := resource.MustParse(canonical) // as the HPA gets it
	if received.String() != canonical || received.AsDec().Cmp(inf.NewDecBig(nanos, 9)) != 0 {
		panic("does not survive the wire: " + text)
	}
	if nanos.Sign() < 0 || kind == "large" {
		return []any{text, kind, canonical, nil}
	}
	return []any{text, kind, canonical, received.MilliValue()}
}

// roundToNano rounds half to even, but never a value that is not zero to zero.
func roundToNano(exact *big.Rat) *big.Int {
	scaled := new(big.Rat).Mul(exact, new(big.Rat).SetInt(nano))
	below := new(big.Int).Div(scaled.Num(), scaled.Denom()) // Euclidean: the floor, as the denominator is positive
	rest := new(big.Rat).Sub(scaled, new(big.Rat).SetInt(below))
	above := new(big.Int).Add(below, big.NewInt(1))
	rounded := below
	if order := rest.Cmp(big.NewRat(1, 2)); order > 0 || (order == 0 && below.Bit(0) == 1) {
		rounded = above
	}
	if rounded.Sign() == 0 && exact.Sign() != 0 {
		return big.NewInt(int64(exact.Sign()))
	}
	return rounded
}

// plain writes nano-units as a decimal without exponent.
func plain(nanos *big.Int) string {
	sign := ""
	if nanos.Sign() < 0 {
		sign = "-"
	}
	units, rest := new(big.Int).QuoRem(new(big.Int).Abs(nanos), nano, new(big.Int))
	return fmt.Sprintf("%s%s.%09d", sign, units, rest)
}
