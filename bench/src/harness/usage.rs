//! CPU time of processes, and what the server counts about itself.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;

use crate::Failure;

/// Ticks of `/proc/<pid>/stat`; 100 a second on every Linux.
const TICK_S: f64 = 0.01;

/// What had been used at one moment.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    pub client_cpu_s: f64,
    pub server_cpu_s: f64,
    /// Calls of each command, those of scripts included.
    pub calls: BTreeMap<String, f64>,
}

impl Usage {
    pub async fn now(
        connection: &mut MultiplexedConnection,
        pids: &[u32],
    ) -> Result<Usage, Failure> {
        let client_cpu_s = pids.iter().filter_map(|&pid| cpu_s(pid)).sum();
        let info: String =
            redis::cmd("INFO").arg("cpu").arg("commandstats").query_async(connection).await?;
        let mut usage = Usage { client_cpu_s, ..Usage::default() };
        for line in info.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            match name {
                "used_cpu_sys" | "used_cpu_user" => usage.server_cpu_s += value.parse::<f64>()?,
                _ => {
                    if let Some((command, calls)) = calls(name, value) {
                        usage.calls.insert(command, calls);
                    }
                }
            }
        }
        Ok(usage)
    }

    pub fn since(&self, before: &Usage) -> Usage {
        let calls = self.calls.iter().map(|(command, calls)| {
            (command.clone(), calls - before.calls.get(command).unwrap_or(&0.0))
        });
        Usage {
            client_cpu_s: self.client_cpu_s - before.client_cpu_s,
            server_cpu_s: self.server_cpu_s - before.server_cpu_s,
            calls: calls.filter(|(command, calls)| *calls > 0.0 && command != "info").collect(),
        }
    }

    pub fn calls_of(&self, commands: &[&str]) -> f64 {
        commands.iter().filter_map(|&command| self.calls.get(command)).fold(0.0, |sum, n| sum + n)
    }

    pub fn scripts(&self) -> f64 {
        self.calls_of(&["eval", "evalsha", "fcall"])
    }

    pub fn publishes(&self) -> f64 {
        self.calls_of(&["publish", "spublish"])
    }

    pub fn all_calls(&self) -> f64 {
        self.calls.values().fold(0.0, |sum, calls| sum + calls)
    }
}

/// User and system time of a process.
fn cpu_s(pid: u32) -> Option<f64> {
    let fields = stat(&pid.to_string())?;
    Some((fields.get(11)? + fields.get(12)?) * TICK_S)
}

/// User time of all children that have ended.
pub fn user_s_of_children() -> Option<f64> {
    Some(stat("self")?.get(13)? * TICK_S)
}

/// The numbers of `/proc/<process>/stat` from its third field on.
fn stat(process: &str) -> Option<Vec<f64>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, the second field, may hold spaces.
    let (_, behind) = stat.rsplit_once(") ")?;
    Some(behind.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect())
}

/// `cmdstat_get`, `calls=3,usec=..`
fn calls(name: &str, value: &str) -> Option<(String, f64)> {
    let command = name.strip_prefix("cmdstat_")?;
    let calls = value.strip_prefix("calls=")?.split(',').next()?;
    Some((command.to_owned(), calls.parse().ok()?))
}
