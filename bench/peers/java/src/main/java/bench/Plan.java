package bench;

/** What the harness asks for, see bench/src/plan.rs. */
final class Plan {
    public String subject;
    public String url;
    public String key;
    public boolean is_distinct;
    public int tasks;
    public int first_worker;
    public int tasks_per_process;
    public boolean client_each;
    public double warm_up_s;
    public double seconds;
    public long limit;
    public double body_ms;
    public boolean has_writer;
    public double pause_ms;
    public boolean is_open;
    public int outstanding;
    public String cell;
}
