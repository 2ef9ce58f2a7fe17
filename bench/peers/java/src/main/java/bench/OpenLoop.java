package bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** Arrivals by chance: each is a thread of its own, which waits for none of the others. */
final class OpenLoop {
    /** The line that starts it: when each worker's arrivals come. */
    static final class Start {
        public long begin;
        public long[][] arrivals;
    }

    /** What became of one arrival. Moments are nanoseconds after the beginning. */
    private static final class Entry {
        final long scheduled;
        volatile long called;
        volatile long began;
        volatile long ended;

        Entry(long scheduled) {
            this.scheduled = scheduled;
        }
    }

    private final Plan plan;
    private final Start start;
    private final List<Entry> entries = new ArrayList<>();
    private final AtomicInteger outstanding = new AtomicInteger();
    private volatile boolean isClosed;

    OpenLoop(Plan plan, Start start) {
        this.plan = plan;
        this.start = start;
    }

    void generate(Worker worker, int n) {
        for (long scheduled : start.arrivals[n]) {
            Entry entry = new Entry(scheduled);
            synchronized (entries) {
                entries.add(entry);
            }
            for (long left = left(scheduled); left > 0; left = left(scheduled)) {
                LockSupport.parkNanos(left);
            }
            if (outstanding.incrementAndGet() > plan.outstanding) {
                outstanding.decrementAndGet();
                continue;
            }
            entry.called = now();
            Thread thread = new Thread(() -> serve(worker, entry), "arrival");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** When all were served, or when it is time to give up. */
    List<long[]> finish() throws InterruptedException {
        while (outstanding.get() > 0 && now() < (long) (plan.seconds * 1e9)) {
            Thread.sleep(5);
        }
        isClosed = true;
        List<long[]> arrivals = new ArrayList<>();
        for (Entry entry : entries) {
            long ended = entry.ended;
            arrivals.add(new long[] {entry.scheduled, entry.called, entry.began, ended});
        }
        return arrivals;
    }

    private void serve(Worker worker, Entry entry) {
        while (entry.began == 0 && !isClosed) {
            try {
                String held = worker.lock.acquire();
                try {
                    visit(worker, entry);
                } finally {
                    worker.lock.release(held);
                }
            } catch (Exception error) {
                synchronized (worker) {
                    worker.tally.errors++;
                    if (worker.tally.first_error == null) {
                        worker.tally.first_error = error.toString();
                    }
                }
            }
        }
        outstanding.decrementAndGet();
    }

    private void visit(Worker worker, Entry entry) throws Exception {
        if (isClosed) {
            return;
        }
        entry.began = now();
        long[] before = worker.cell == null ? null : worker.cell.read();
        if (plan.body_ms > 0) {
            Thread.sleep((long) plan.body_ms);
        }
        if (isClosed) {
            return;
        }
        if (before != null) {
            worker.cell.write(before[0] + 1, worker.number + 1, System.nanoTime());
        }
        entry.ended = now();
        synchronized (worker) {
            worker.tally.holds++;
        }
    }

    private long now() {
        return System.nanoTime() - start.begin;
    }

    private long left(long scheduled) {
        return scheduled - now();
    }
}
