//! All workers of one act, seen by the orchestrator: processes, or groups of tasks.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::event::Event;
use crate::shop::{Mishap, Phase};
use crate::worker::{self, Setup};

/// Which worker, and what it said.
pub(crate) type Message = (usize, Event);

/// What the workers need to reach the server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) prefix: String,
}

/// The workers. Dropping the fleet ends them.
pub(crate) struct Fleet {
    workers: Vec<Worker>,
    events: mpsc::UnboundedReceiver<Message>,
}

enum Worker {
    Process { child: Box<Child>, stdin: ChildStdin },
    Tasks { phase: watch::Sender<Phase>, task: JoinHandle<()> },
}

impl Fleet {
    /// Starts the workers; with `access` as processes. They wait for [`open`](Self::open).
    pub(crate) fn start(setups: Vec<Setup>, access: Option<&Access>) -> io::Result<Self> {
        let (sender, events) = mpsc::unbounded_channel();
        let workers = setups.into_iter().map(|setup| match access {
            Some(access) => process(&setup, access, sender.clone()),
            None => Ok(tasks(setup, sender.clone())),
        });
        Ok(Self { workers: workers.collect::<io::Result<_>>()?, events })
    }

    /// The next event; `None` once all workers are gone.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        self.events.recv().await
    }

    /// Lets the customers in.
    pub(crate) async fn open(&mut self) -> io::Result<()> {
        for worker in &mut self.workers {
            worker.send(Phase::Open).await?;
        }
        Ok(())
    }

    /// Kills a worker that is a process; `true` if it is one.
    pub(crate) fn kill(&mut self, proc: usize) -> io::Result<bool> {
        match &mut self.workers[proc] {
            Worker::Process { child, .. } => child.start_kill().map(|()| true),
            Worker::Tasks { .. } => Ok(false),
        }
    }

    /// Freezes a worker that is a process; `true` if it is one.
    pub(crate) fn freeze(&self, proc: usize) -> io::Result<bool> {
        match &self.workers[proc] {
            Worker::Process { child, .. } => signal::stop(child).map(|()| true),
            Worker::Tasks { .. } => Ok(false),
        }
    }

    /// Wakes a frozen worker, and lets its frozen payment go through.
    pub(crate) async fn thaw(&mut self, proc: usize) -> io::Result<()> {
        if let Worker::Process { child, .. } = &self.workers[proc] {
            signal::resume(child)?;
        }
        self.workers[proc].send(Phase::Thawed).await
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &self.workers {
            match worker {
                // A frozen payment ends, or its thread would outlive the act.
                Worker::Tasks { phase, task } => {
                    phase.send_replace(Phase::Thawed);
                    task.abort();
                }
                // Killed as it is dropped.
                Worker::Process { .. } => {}
            }
        }
    }
}

impl Worker {
    async fn send(&mut self, next: Phase) -> io::Result<()> {
        match self {
            Self::Tasks { phase, .. } => {
                phase.send_replace(next);
                Ok(())
            }
            Self::Process { stdin, .. } => {
                let line: &[u8] = if next == Phase::Thawed { b"thaw\n" } else { b"open\n" };
                stdin.write_all(line).await?;
                stdin.flush().await
            }
        }
    }
}

/// This program once more, as a worker.
fn process(
    setup: &Setup,
    access: &Access,
    events: mpsc::UnboundedSender<Message>,
) -> io::Result<Worker> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(setup.to_args())
        .env("REDIS_URL", &access.url)
        .env("REDLOCK_PREFIX", &access.prefix)
        .env_remove("REDLOCK_URLS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a worker has no pipes"));
    };
    let proc = setup.proc;
    tokio::spawn(async move {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(event) = Event::parse(&line) {
                let _ = events.send((proc, event));
            }
        }
        let _ = events.send((proc, Event::Gone));
    });
    Ok(Worker::Process { child: Box::new(child), stdin })
}

fn tasks(mut setup: Setup, events: mpsc::UnboundedSender<Message>) -> Worker {
    if setup.mishap == Mishap::Dies {
        setup.mishap = Mishap::DiesAlone;
    }
    let (phase, seen) = watch::channel(Phase::Closed);
    let proc = setup.proc;
    let (sender, mut sent) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = sent.recv().await {
            let _ = events.send((proc, event));
        }
    });
    Worker::Tasks { phase, task: tokio::spawn(worker::serve(setup, sender, seen)) }
}

#[cfg(unix)]
mod signal {
    use std::io;

    use rustix::process::{Pid, Signal, kill_process};
    use tokio::process::Child;

    pub(super) fn stop(child: &Child) -> io::Result<()> {
        send(child, Signal::STOP)
    }

    pub(super) fn resume(child: &Child) -> io::Result<()> {
        send(child, Signal::CONT)
    }

    fn send(child: &Child, signal: Signal) -> io::Result<()> {
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("the worker has ended"))?;
        Ok(kill_process(pid, signal)?)
    }
}

/// Elsewhere the workers are tasks, see `Server::choose`.
#[cfg(not(unix))]
mod signal {
    use std::io;

    use tokio::process::Child;

    pub(super) fn stop(_: &Child) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn resume(_: &Child) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
