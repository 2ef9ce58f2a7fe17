package bench;

/** What one worker did. */
final class Tally {
    public long holds;
    public long hand_overs;
    public long late;
    public long errors;
    public long overlaps;
    public String first_error;
}
