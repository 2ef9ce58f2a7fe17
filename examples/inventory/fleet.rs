//! All workers of one act, seen by the orchestrator: processes, or groups of tasks.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::Result;
use crate::worker::{self, Event, Message, Setup};

/// The workers. Dropping the fleet ends them.
pub(crate) struct Fleet {
    processes: Vec<Child>,
    tasks: JoinSet<()>,
    pub(crate) events: UnboundedReceiver<Message>,
}

impl Fleet {
    /// Starts the workers, as processes if there is a server at `url`.
    pub(crate) fn start(
        setups: impl Iterator<Item = Setup>,
        url: Option<&str>,
        prefix: &str,
    ) -> Result<Self> {
        let (sender, events) = unbounded_channel();
        let mut fleet = Self { processes: Vec::new(), tasks: JoinSet::new(), events };
        for setup in setups {
            let (proc, events) = (setup.proc, sender.clone());
            let Some(url) = url else {
                fleet.tasks.spawn(worker::serve(setup, events));
                continue;
            };
            // This program once more.
            let mut child = Command::new(std::env::current_exe()?)
                .args([worker::ROLE, &serde_json::to_string(&setup)?])
                .env("REDIS_URL", url)
                .env("REDLOCK_PREFIX", prefix)
                .env_remove("REDLOCK_URLS")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
            fleet.processes.push(child);
            fleet.tasks.spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Ok(message) = serde_json::from_str(&line) {
                        let _ = events.send(message);
                    }
                }
                let _ = events.send((proc, Event::Gone));
            });
        }
        Ok(fleet)
    }

    /// `false`: the worker is no process.
    pub(crate) fn signal(&self, proc: usize, signal: Signal) -> Result<bool> {
        let Some(child) = self.processes.get(proc) else { return Ok(false) };
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(pid.ok_or("the worker has ended")?, signal)?;
        Ok(true)
    }
}
