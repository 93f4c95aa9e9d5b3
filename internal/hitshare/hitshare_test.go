// SPDX-License-Identifier: Apache-2.0

package hitshare

import (
	"math"
	"testing"
)

// load makes rounds of these seconds and shares; another one follows, of which only the begin is known.
func load(parts ...[2]float64) (rounds []Round) {
	at := 100.0
	for _, part := range parts {
		rounds = append(rounds, Round{At: at, Share: part[1]})
		at += part[0]
	}
	return append(rounds, Round{At: at, Share: 0.123})
}

func TestLowest(t *testing.T) {
	for name, test := range map[string]struct {
		rounds []Round
		window float64
		want   float64
	}{
		"all":                   {load([2]float64{100, 1}), 60, 1},
		"none":                  {load([2]float64{100, 0}), 60, 0},
		"a gap of 3 s":          {load([2]float64{50, 1}, [2]float64{3, 0}, [2]float64{47, 1}), 60, 0.95},
		"a gap longer than it":  {load([2]float64{50, 1}, [2]float64{30, 0}, [2]float64{50, 1}), 20, 0},
		"half for 10 s":         {load([2]float64{10, 1}, [2]float64{10, 0.5}, [2]float64{30, 1}), 20, 0.75},
		"two gaps in a window":  {load([2]float64{40, 1}, [2]float64{2, 0}, [2]float64{20, 1}, [2]float64{2, 0}, [2]float64{40, 1}), 60, 56.0 / 60},
		"two gaps too far away": {load([2]float64{40, 1}, [2]float64{2, 0}, [2]float64{70, 1}, [2]float64{2, 0}, [2]float64{40, 1}), 60, 58.0 / 60},
		"a gap at the begin":    {load([2]float64{3, 0}, [2]float64{97, 1}), 60, 0.95},
		"a gap at the end":      {load([2]float64{97, 1}, [2]float64{3, 0}), 60, 0.95},
		"shorter than a window": {load([2]float64{8, 1}, [2]float64{2, 0}), 60, 0.8},
		// The mean of all is 0.97: a mean would not see it.
		"a mean hides it":       {load([2]float64{97, 1}, [2]float64{3, 0}), 10, 0.7},
		"one round":             {load(), 60, 0},
		"no round":              {nil, 60, 0},
		"rounds without a time": {load([2]float64{0, 1}), 60, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Lowest(test.rounds, test.window); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("got %v, expected %v", got, test.want)
			}
		})
	}
}

// No window at any position has less.
func TestNoWindowHasLessThanTheLowest(t *testing.T) {
	var rounds []Round
	at := 0.0
	for i := range 200 {
		rounds = append(rounds, Round{At: at, Share: math.Mod(float64(i)*0.618, 1)})
		at += 0.1 + math.Mod(float64(i)*0.377, 0.5)
	}
	const window = 7.3
	lowest, lowestOfMany := Lowest(rounds, window), 1.0
	for from := 0.0; from+window <= rounds[len(rounds)-1].At; from += 0.01 {
		lowestOfMany = min(lowestOfMany, found(rounds, from, window)/window)
	}
	if lowest > lowestOfMany+1e-9 || lowest < lowestOfMany-0.01 {
		t.Errorf("got %v, but windows a hundredth of a second apart have %v at least", lowest, lowestOfMany)
	}
}
