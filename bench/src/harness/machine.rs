//! Where, when and with what was measured.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde::Serialize;

use super::lab::{Lab, Place};
use super::subjects::SUBJECTS;
use crate::Failure;

#[derive(Debug, Serialize)]
pub struct Machine {
    pub date: String,
    pub command: String,
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    /// Which of them servers and clients have.
    pub placement: String,
    pub memory: String,
    pub kernel: String,
    /// Of the server, compilers and run times.
    pub tools: BTreeMap<&'static str, String>,
    /// Of the subjects.
    pub versions: BTreeMap<&'static str, String>,
}

impl Machine {
    pub async fn of(lab: &mut Lab) -> Result<Machine, Failure> {
        let mut servers = vec![("server", server_version(&lab.redis).await?)];
        if let Ok(valkey) = &lab.valkey {
            servers.push(("beside it", server_version(valkey).await?));
        }
        let tools: [(&str, &[&str]); 5] = [
            ("rustc", &["rustc", "--version"]),
            ("go", &["go", "version"]),
            ("java", &["java", "--version"]),
            ("node", &["node", "--version"]),
            ("python", &["python3", "--version"]),
        ];
        let tools = tools.into_iter().filter_map(|(name, command)| Some((name, said(command)?)));
        let line = |file, before| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(before)).unwrap_or("unknown");
            line.trim_matches([' ', '\t', ':']).to_owned()
        };
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let root = lab.root.to_string_lossy();
        let commit = said(&["git", "-C", &root, "describe", "--always", "--dirty"]);
        let tools = tools.chain(servers).collect();
        Ok(Machine {
            date: said(&["date", "-u", "+%Y-%m-%d"]).unwrap_or_default(),
            command: format!("scripts/bench {}", arguments.join(" ")).trim().to_owned(),
            commit: commit.unwrap_or_default(),
            cpu: line("/proc/cpuinfo", "model name"),
            cores: lab.cores.count,
            placement: lab.cores.to_string(),
            memory: line("/proc/meminfo", "MemTotal"),
            kernel: line("/proc/sys/kernel/osrelease", ""),
            tools,
            versions: versions(lab),
        })
    }
}

async fn server_version(place: &Place) -> Result<String, Failure> {
    let mut connection = place.connection.clone();
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let names = ["valkey_version", "redis_version"];
    let versions = names.into_iter().filter_map(|name| {
        let version = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(format!("{} {version}", name.trim_end_matches("_version")))
    });
    Ok(versions.into_iter().next().unwrap_or_default())
}

/// The first line that a command prints.
fn said(command: &[&str]) -> Option<String> {
    let output = Command::new(command[0]).args(&command[1..]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next()?.trim().to_owned())
}

/// From the files that pin them.
fn versions(lab: &Lab) -> BTreeMap<&'static str, String> {
    let pinned = SUBJECTS.iter().filter_map(|subject| {
        let (file, before) = subject.version?;
        let text = fs::read_to_string(lab.root.join("bench").join(file)).ok()?;
        let (_, behind) = text.split_once(before)?;
        let end = behind.find(['"', '<', '\n', ' ']).unwrap_or(behind.len());
        Some((subject.name, behind[..end].to_owned()))
    });
    pinned.collect()
}
