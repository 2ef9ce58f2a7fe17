package bench;

import java.util.ArrayList;
import java.util.List;

/** What the harness gets. */
final class Answer {
    public final List<Tally> workers = new ArrayList<>();
    public final Histogram wait = new Histogram();
    public final Histogram cycle = new Histogram();
    public final Histogram passed = new Histogram();
    public final List<long[]> write_waits = new ArrayList<>();
    public final List<long[]> read_holds = new ArrayList<>();
    /** Of an open loop. */
    public final List<long[]> arrivals = new ArrayList<>();
}
