package main

import "math/bits"

// Histogram counts nanoseconds in the buckets of bench/src/histogram.rs.
type Histogram struct {
	Buckets map[uint64]uint64 `json:"buckets"`
	Max     uint64            `json:"max"`
}

func newHistogram() *Histogram { return &Histogram{Buckets: map[uint64]uint64{}} }

func (h *Histogram) count(nanos int64) {
	value := uint64(max(nanos, 0))
	shift := uint64(max(bits.Len64(value)-8, 0))
	h.Buckets[shift*128+(value>>shift)]++
	h.Max = max(h.Max, value)
}

func (h *Histogram) merge(other *Histogram) {
	for bucket, count := range other.Buckets {
		h.Buckets[bucket] += count
	}
	h.Max = max(h.Max, other.Max)
}
