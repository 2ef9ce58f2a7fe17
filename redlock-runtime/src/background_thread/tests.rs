use std::time::Duration;

use super::*;

const STEP: Duration = Duration::from_millis(50);

/// As in a process of its own.
pub(super) fn background() -> &'static Mutex<Background> {
    Box::leak(Box::default())
}

#[test]
fn one_thread_serves_the_process_and_survives_a_panic_of_its_tasks() {
    let (sender, receiver) = std::sync::mpsc::channel();
    spawn(async { panic!("a task of the background thread panics on purpose") }).unwrap();
    for _ in 0..2 {
        let sender = sender.clone();
        spawn(async move { sender.send(std::thread::current().id()).unwrap() }).unwrap();
    }
    assert_eq!(receiver.recv().unwrap(), receiver.recv().unwrap());
}

/// The refusal stands for a process that has all the threads it may have.
#[tokio::test]
async fn a_thread_that_cannot_start_is_an_error_inside_of_a_runtime() {
    let refused = start(Builder::new().stack_size(usize::MAX / 2), background());
    let error = refused.map(|_| ()).unwrap_err();
    assert!(matches!(error, LockError::BackgroundThread { .. }));
    assert!(error.to_string().contains("the limit of threads (`ulimit -u`"), "{error}");
}

#[test]
fn a_thread_that_died_says_what_the_caller_can_do() {
    let text = stopped("a shutdown").to_string();
    assert!(text.contains("it stopped during a shutdown, or") && text.ends_with("starts it anew"));
}

/// A timer that calls this waker ends the thread, as a file does that other code has closed.
struct Kills;

impl std::task::Wake for Kills {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics on purpose");
    }
}

pub(super) fn kill(thread: &BackgroundThread) {
    let mut timer = {
        let _timers = thread.handle.enter();
        Box::pin(sleep_until(Instant::now() + Duration::from_millis(1)))
    };
    let waker = std::task::Waker::from(Arc::new(Kills));
    assert!(timer.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    while !thread.has_died() {
        std::thread::yield_now();
    }
}

const FOR_EVER: Duration = Duration::from_secs(3600);

/// A name server that is silent keeps the next thread from nobody.
#[test]
fn a_thread_that_dies_drops_its_tasks_and_waits_for_no_lookup() {
    let thread = start(Builder::new(), background()).unwrap();
    let (alive, ends) = std::sync::mpsc::channel::<()>();
    let (lookup, lookup_ends) = std::sync::mpsc::channel::<()>();
    thread.handle.spawn_blocking(move || lookup_ends.recv());
    thread.handle.spawn(async move {
        pending::<()>().await;
        drop(alive);
    });
    kill(&thread);
    assert_eq!(ends.recv(), Err(std::sync::mpsc::RecvError));
    drop(lookup);
}

#[test]
fn a_caller_whose_timer_dies_with_the_thread_goes_on_with_another_one() {
    let thread = start(Builder::new(), background()).unwrap();
    let (answer, answered) = tokio::sync::oneshot::channel();
    let (outcome, late) = crate::blocking::block_on(async {
        let asked = until(Some(&thread), Instant::now() + FOR_EVER, answered);
        let late = until(Some(&thread), Instant::now() + 10 * STEP, pending::<()>());
        let (mut asked, mut late) = (pin!(asked), pin!(late));
        poll_fn(|cx| {
            assert!(asked.as_mut().poll(cx).is_pending());
            assert!(late.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        kill(&thread);
        let late = late.await;
        answer.send(17).unwrap();
        (asked.await, late)
    });
    assert_eq!((outcome, late), (Some(Ok(17)), None));
}

#[tokio::test(start_paused = true)]
async fn a_caller_goes_on_by_its_own_timers_where_no_thread_is_granted() {
    let none = || Err(stopped("a test"));
    let soon = Instant::now() + STEP;
    let answered = pin!(tokio::task::yield_now());
    assert_eq!(until_by_another(none, soon, answered).await, Some(()));
    assert_eq!(until_by_another(none, soon, pin!(pending::<()>())).await, None);
    assert_eq!(Instant::now(), soon);
}

/// Its runtime is shut down in order, and its timers would panic.
#[test]
fn a_timer_of_a_thread_that_has_died_does_not_panic() {
    let dead = BackgroundThread::dead();
    let soon = Instant::now() + STEP;
    assert_eq!(crate::blocking::block_on(dead.bound(soon, pin!(pending::<()>()))), None);
    assert_eq!(crate::blocking::block_on(until(Some(&dead), soon, pending::<()>())), None);
}

#[test]
fn a_thread_that_died_is_replaced() {
    let background = background();
    background.lock().thread = Some(BackgroundThread::dead());
    let (sender, receiver) = std::sync::mpsc::channel();
    let told = sender.clone();
    let _hearing = crate::tests::hear::hear(move |event| {
        assert_eq!(*event.metadata().level(), tracing::Level::WARN);
        told.send(()).unwrap();
    });
    let thread = serving(background).unwrap();
    assert_eq!(receiver.try_recv(), Ok(()), "the operator is told");
    thread.handle.spawn(async move { sender.send(()) });
    receiver.recv().unwrap();
}

/// Spawns a task when it is dropped, as what cleans up after a command does.
struct Spawns(&'static Mutex<Background>, std::sync::mpsc::Sender<std::thread::ThreadId>);

impl Drop for Spawns {
    fn drop(&mut self) {
        let sender = self.1.clone();
        let task = async move { sender.send(std::thread::current().id()) };
        serving(self.0).unwrap().handle.spawn(task);
    }
}

#[test]
fn what_the_tasks_of_a_thread_that_dies_spawn_runs_on_the_next_one() {
    let background = background();
    let (sender, told) = std::sync::mpsc::channel();
    let thread = serving(background).unwrap();
    let spawns = Spawns(background, sender);
    thread.handle.spawn(async move {
        pending::<()>().await;
        drop(spawns);
    });
    kill(&thread);
    assert!(told.recv().is_ok());
}

/// Tells when its task is polled. The task has no end, and spawns another one when it is dropped.
struct Telling {
    runs: Arc<AtomicBool>,
    background: &'static Mutex<Background>,
    sender: std::sync::mpsc::Sender<std::thread::ThreadId>,
}

impl Telling {
    fn new(
        background: &'static Mutex<Background>,
        sender: &std::sync::mpsc::Sender<std::thread::ThreadId>,
    ) -> Arc<Self> {
        Arc::new(Self { runs: Arc::default(), background, sender: sender.clone() })
    }
}

/// The task runs until this is dropped.
struct Runs(Arc<AtomicBool>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Resident for Telling {
    fn task(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        if self.runs.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (runs, sender) = (Runs(Arc::clone(&self.runs)), self.sender.clone());
        let spawns = Spawns(self.background, std::sync::mpsc::channel().0);
        Some(Box::pin(async move {
            let _in_this_order = (spawns, runs);
            sender.send(std::thread::current().id()).unwrap();
            pending::<()>().await;
        }))
    }
}

#[test]
fn the_tasks_of_residents_move_to_the_thread_that_replaces_one_that_died() {
    let background = background();
    let (sender, told) = std::sync::mpsc::channel();
    let thread = serving(background).unwrap();
    let resident = Telling::new(background, &sender);
    house_in(background, &resident).unwrap();
    let gone = Telling::new(background, &sender);
    house_in(background, &gone).unwrap();
    let first = told.recv().unwrap();
    assert_eq!(told.recv().unwrap(), first);
    drop(gone);
    // The next thread is started while the task of the resident still runs on this one.
    kill(&thread);
    assert_ne!(told.recv().unwrap(), first);
    serving(background).unwrap();
    assert!(told.try_recv().is_err(), "each is begun once, and none of a client that has gone");
}

/// The first one who asks for its task kills the thread for which it was asked, and waits until the
/// next one was asked as well.
struct Late {
    runs: Arc<AtomicBool>,
    asked: std::sync::atomic::AtomicU32,
    background: &'static Mutex<Background>,
    sender: std::sync::mpsc::Sender<std::thread::ThreadId>,
}

impl Resident for Late {
    fn task(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let nth = self.asked.fetch_add(1, Ordering::AcqRel);
        if self.runs.swap(true, Ordering::AcqRel) {
            return None;
        }
        if nth == 0 {
            kill(&serving(self.background).unwrap());
            serving(self.background).unwrap();
            // By the thread that replaces it, and by the end of the one that died, which does not
            // ask if it came first.
            let end = Instant::now() + STEP;
            while self.asked.load(Ordering::Acquire) < 3 && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        let (runs, sender) = (Runs(Arc::clone(&self.runs)), self.sender.clone());
        Some(Box::pin(async move {
            let _runs = runs;
            sender.send(std::thread::current().id()).unwrap();
            pending::<()>().await;
        }))
    }
}

/// Until then it seemed to run, to the thread that has replaced its own one.
#[test]
fn the_task_of_a_resident_that_comes_too_late_for_its_thread_moves_on() {
    let (background, (sender, told)) = (background(), std::sync::mpsc::channel());
    let late = Late { runs: Arc::default(), asked: 0.into(), background, sender };
    let late: Arc<dyn Resident> = Arc::new(late);
    background.lock().residents.push(Arc::downgrade(&late));
    serving(background).unwrap();
    assert!(told.recv_timeout(FOR_EVER / 360).is_ok());
}
