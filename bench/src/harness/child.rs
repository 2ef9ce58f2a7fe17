//! A worker process, from the harness' side.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time;

use crate::Failure;
use crate::plan::Plan;

/// It is killed when it is dropped.
pub struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// `command` is the program and its first arguments; the plan is the last one.
    pub fn start(command: &[String], plan: &Plan) -> Result<Worker, Failure> {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .arg(serde_json::to_string(plan)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        Ok(Worker { child, stdin, lines: BufReader::new(stdout).lines() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    pub async fn until_ready(&mut self, bound: Duration) -> Result<(), Failure> {
        match self.line(bound).await?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a worker said {other:?} instead of ready").into()),
        }
    }

    pub async fn go(&mut self) -> Result<(), Failure> {
        self.go_with("go").await
    }

    /// `line` is what an open loop starts with.
    pub async fn go_with(&mut self, line: &str) -> Result<(), Failure> {
        self.stdin.write_all(line.as_bytes()).await?;
        self.stdin.write_all(b"\n").await?;
        Ok(self.stdin.flush().await?)
    }

    pub async fn line(&mut self, bound: Duration) -> Result<String, Failure> {
        match time::timeout(bound, self.lines.next_line()).await {
            Err(_) => Err(format!("a worker did not answer within {bound:?}").into()),
            Ok(line) => match line? {
                Some(line) => Ok(line),
                None => Err("a worker ended without an answer".into()),
            },
        }
    }

    pub async fn kill(mut self) {
        let _ = self.child.kill().await;
    }

    /// After its answer.
    pub async fn end(mut self) {
        if time::timeout(Duration::from_secs(5), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
