//! `min_hold`: a job that several processes start runs once, whatever becomes of them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redlock::{LockError, Redlock, redis_lock};

use crate::clients::{client, raw};
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::{
    Server, counted, eventually, full, ms, secs, time_passes, unique_prefix, within,
};

/// Longer than the lease: a process that dies does not renew it.
const MIN_HOLD: Duration = secs(2);
const EXPIRE: Duration = ms(500);

#[redis_lock(key = "nightly", wait = "0s", on_busy = "skip", min_hold = "2s", client = redlock)]
async fn nightly(redlock: &Redlock) -> Result<Option<u32>, LockError> {
    Ok(Some(17))
}

#[tokio::test]
async fn an_attribute_keeps_its_lock_and_skips() {
    let redlock = client().await;
    let before = Instant::now();
    assert_eq!(nightly(&redlock).await.unwrap(), Some(17));
    let key = redlock.lock("nightly").wait(secs(60)).acquire();
    let again = async { (nightly(&redlock).await.unwrap(), before.elapsed()) };
    let ((again, after), guard) = tokio::join!(again, key);
    // On a machine that stood still for so long, it is the next night.
    assert!(again.is_none() || after >= MIN_HOLD, "it ran again after {after:?}");
    assert!(before.elapsed() >= MIN_HOLD);
    guard.unwrap().release().await.unwrap();
}

/// What Redis shows of a lock that nobody holds.
#[tokio::test]
async fn an_operator_sees_who_has_let_go() {
    let redlock = client().await;
    let guard = redlock.lock("k").min_hold(secs(60)).acquire().await.unwrap();
    let (key, owner) = (guard.redis_key().to_owned(), guard.owner().to_owned());
    let left = async || raw().await.pttl(&key).await.expect("it has an expiry");
    assert!(left().await > secs(31), "longer than its lease, from the first command on");
    guard.release().await.unwrap();
    let (name, random) = owner.rsplit_once(':').unwrap();
    let shown = format!("{name}:retained:{random}");
    assert_eq!(raw().await.get(&key).await, Some(shown.clone()));
    assert!(left().await > secs(31) && left().await <= secs(60));
    let error = redlock.lock("k").wait(ms(1)).acquire().await.unwrap_err();
    assert!(error.to_string().contains(&shown), "{error}");
    raw().await.del(&key).await;
}

/// Runs a job whenever the lock is free: url, prefix, and "hang" to stay in the first one.
pub fn run_jobs(args: &Args) {
    block_on(async {
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
        let redlock = builder.build().await.expect("the server is there");
        loop {
            let job = redlock.lock("job").expire(EXPIRE).min_hold(MIN_HOLD);
            // On a machine that stands still the answer may come too late for the lease.
            if let Ok(Some(guard)) = job.try_acquire().await {
                emit(&format!("runs {}", guard.fencing_token()));
                time_passes(if args.get(2) == "hang" { secs(120) } else { ms(10) }).await;
                let _ = guard.release().await;
            }
            time_passes(ms(20)).await;
        }
    });
}

/// The token of a grant is the time of the server, so that no stall of this machine blurs it.
#[tokio::test]
async fn a_job_whose_process_is_killed_runs_again_when_min_hold_is_over() {
    let (url, prefix) = (Server::shared().await.url(), unique_prefix());
    let mut runs: Vec<u64> = Vec::new();
    let kills = full(2, 20);
    for _ in 0..kills {
        let mut dies = Process::spawn("run-a-job", &[&url, &prefix, "hang"]);
        runs.push(dies.event("runs").await.parse().unwrap());
        dies.sigkill();
    }
    let mut rivals = ["a", "b"].map(|name| Process::spawn("run-a-job", &[&url, &prefix, name]));
    let seen = |runs: &mut Vec<u64>, rivals: &mut [Process; 2]| {
        let events = rivals.iter_mut().flat_map(Process::events);
        runs.extend(events.filter_map(|event| event.strip_prefix("runs ")?.parse::<u64>().ok()));
        runs.len()
    };
    let begun = Instant::now();
    while seen(&mut runs, &mut rivals) < kills + 4 {
        assert!(begun.elapsed() < secs(120), "{runs:?}");
        time_passes(ms(50)).await;
    }
    drop(rivals);
    let shortest = shortest_gap(&mut runs);
    counted(&format!(
        "{} runs of a job, {kills} of them killed in the middle: none twice within {MIN_HOLD:?}, \
         shortest time between two {shortest:.2?}",
        runs.len()
    ));
}

/// Between two runs, by their tokens; it is never shorter than `MIN_HOLD`.
fn shortest_gap(runs: &mut [u64]) -> Duration {
    runs.sort_unstable();
    let gaps = runs.windows(2).map(|pair| Duration::from_micros(pair[1] - pair[0]));
    let shortest = gaps.min().expect("there were several runs");
    assert!(shortest >= MIN_HOLD, "two holders in {shortest:?}: {runs:?}");
    shortest
}

/// The clocks differ by half a tick more than some whole ones, so that the second process starts
/// its job when the first one has been done with it for long.
const TICK_MS: u64 = 2_400;
/// Attempts that are later than this may leave out a tick, or run the job in the next one.
const LATE: Duration = ms(300);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Runs a job at each tick of its own clock: url, prefix, first tick in ms, count of ticks.
pub fn run_ticks(args: &Args) {
    block_on(async {
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
        let redlock = builder.build().await.expect("the server is there");
        for tick in 0..args.parse(3) {
            let due = args.parse::<u64>(2) + tick * TICK_MS;
            time_passes(ms(due.saturating_sub(now_ms()))).await;
            let job = redlock.lock("job").expire(EXPIRE).min_hold(MIN_HOLD);
            let run = job.try_acquire().await;
            let late = ms(now_ms().saturating_sub(due));
            if late > LATE {
                emit(&format!("late {late:?}"));
            }
            match run {
                Ok(Some(guard)) => {
                    emit(&format!("runs {}", guard.fencing_token()));
                    time_passes(ms(10)).await;
                    let _ = guard.release().await;
                }
                Ok(None) => {}
                Err(error) => assert!(late > LATE, "tick {tick}: {error}"),
            }
        }
        emit("done");
        time_passes(secs(120)).await;
    });
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_processes_with_clocks_apart_run_a_job_once_a_tick() {
    const CLOCKS_APART: u64 = 30;
    let (url, prefix) = (Server::shared().await.url(), unique_prefix());
    let ticks = full(3, 60);
    let first = now_ms().next_multiple_of(TICK_MS) + TICK_MS;
    let spawn = |off: u64| {
        let own_first = first + (off * 1_000).next_multiple_of(TICK_MS);
        let args = [&url, &prefix, &own_first.to_string(), &ticks.to_string()];
        Process::spawn_with_clock_off(off.try_into().unwrap(), "run-ticks", &args.map(|arg| &**arg))
    };
    let mut events = Vec::new();
    let mut processes = [spawn(0), spawn(CLOCKS_APART)];
    for process in &mut processes {
        let told = async {
            while !events.ends_with(&["done".to_owned()]) {
                events.extend(process.events());
                time_passes(ms(50)).await;
            }
            events.push("next".to_owned());
        };
        within(ms(TICK_MS * ticks) + secs(60), told).await;
    }
    let runs = events.iter().filter_map(|event| event.strip_prefix("runs ")?.parse().ok());
    let mut runs: Vec<u64> = runs.collect();
    let late = events.iter().filter(|event| event.starts_with("late")).count();
    let (shortest, count) = (shortest_gap(&mut runs), runs.len());
    assert!(count.abs_diff(ticks.try_into().unwrap()) <= late, "{count} runs, {late} late");
    counted(&format!(
        "{ticks} ticks, two processes with clocks {CLOCKS_APART} s apart: {count} runs, {late} \
         late attempts, shortest time between two runs {shortest:.2?} (min_hold {MIN_HOLD:?})"
    ));
}

/// Whoever waits is served in time, though the process is gone that let go and would hand over.
#[tokio::test]
async fn a_waiter_is_served_though_the_last_holder_has_ended() {
    let (url, prefix) = (Server::shared().await.url(), unique_prefix());
    let mut holder = Process::spawn("run-a-job", &[&url, &prefix, "once"]);
    holder.event("runs").await;
    let redlock = Redlock::builder().url(&url).prefix(&prefix).build().await.unwrap();
    let waiter = tokio::spawn(redlock.lock("job").wait(secs(60)).acquire());
    let raw = Server::shared().await.raw();
    let key = format!("{prefix}job");
    let (raw, key) = (&raw, key.as_str());
    let is_retained =
        || async move { raw.get(key).await.is_some_and(|owner| owner.contains(":retained:")) };
    eventually(secs(20), is_retained).await;
    holder.sigkill();
    drop(waiter.await.unwrap().expect("it is free when min_hold is over"));
}
