package bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RedissonClient;

/** A thread that takes a lock again and again. */
final class Worker {
    final Tally tally = new Tally();
    final Histogram wait = new Histogram();
    final Histogram cycle = new Histogram();
    final Histogram passed = new Histogram();
    /** The waits of a writer, the holds of a reader. */
    final List<long[]> spans = new ArrayList<>();
    final int number;
    final Cell cell;
    final Lock lock;
    private final Plan plan;
    private final Lock warmLock;

    Worker(Plan plan, int number, RedissonClient client, Cell cell) {
        this.plan = plan;
        this.number = number;
        this.cell = cell;
        String key = plan.is_distinct ? plan.key + "-" + number : plan.key;
        lock = Lock.of(plan.subject, client, key, isWriter());
        warmLock = Lock.of(plan.subject, client, "warm-up-" + number, isWriter());
    }

    final boolean isReader() {
        return plan.has_writer && number > 0;
    }

    /** The first one where one writes among readers. */
    final boolean isWriter() {
        return plan.has_writer && number == 0;
    }

    void warmUp(long until) {
        try {
            do {
                warmLock.release(warmLock.acquire());
            } while (System.nanoTime() < until);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    void work(long until) {
        for (long called = System.nanoTime(); called < until; called = System.nanoTime()) {
            long[] seen = null;
            try {
                String held = lock.acquire();
                try {
                    seen = visit();
                } finally {
                    lock.release(held);
                }
            } catch (Exception error) {
                tally.errors++;
                if (tally.first_error == null) {
                    tally.first_error = error.toString();
                }
            }
            // A release that failed comes behind a body that ran.
            if (seen != null) {
                if (isReader()) {
                    spans.add(new long[] {seen[0], System.nanoTime()});
                } else if (isWriter()) {
                    spans.add(new long[] {called, seen[0]});
                }
                count(called, until, seen[0], seen[1], seen[2]);
                pause();
            }
        }
    }

    /** System.nanoTime is CLOCK_MONOTONIC, the same in all processes of the machine. */
    private long[] visit() throws Exception {
        long began = System.nanoTime();
        if (cell == null) {
            return new long[] {began, 0, 0};
        }
        long[] before = cell.read();
        if (plan.body_ms > 0) {
            Thread.sleep((long) plan.body_ms);
        }
        if (isReader()) {
            tally.overlaps += cell.read()[0] == before[0] ? 0 : 1;
        } else {
            cell.write(before[0] + 1, number + 1, System.nanoTime());
        }
        return new long[] {began, before[1], before[2]};
    }

    private void pause() {
        if (isWriter() && plan.pause_ms > 0) {
            LockSupport.parkNanos((long) (plan.pause_ms * 1e6));
        }
    }

    private void count(long called, long until, long began, long last, long ended) {
        wait.count(began - called);
        if (began >= until) {
            tally.late++;
            return;
        }
        cycle.count(System.nanoTime() - called);
        tally.holds++;
        if (last == 0 || last - 1 == number) {
            return;
        }
        tally.hand_overs++;
        int each = plan.tasks_per_process;
        if (each == 0 || (last - 1) / each != number / each) {
            passed.count(began - ended);
        }
    }
}
