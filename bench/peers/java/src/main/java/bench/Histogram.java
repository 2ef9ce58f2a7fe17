package bench;

import java.util.Map;
import java.util.TreeMap;

/** Nanoseconds in the buckets of bench/src/histogram.rs. */
final class Histogram {
    public final Map<Long, Long> buckets = new TreeMap<>();
    public long max;

    void count(long value) {
        long nanos = Math.max(value, 0);
        int shift = Math.max(64 - Long.numberOfLeadingZeros(nanos) - 8, 0);
        buckets.merge(shift * 128L + (nanos >> shift), 1L, Long::sum);
        max = Math.max(max, nanos);
    }

    void merge(Histogram other) {
        other.buckets.forEach((bucket, count) -> buckets.merge(bucket, count, Long::sum));
        max = Math.max(max, other.max);
    }
}
