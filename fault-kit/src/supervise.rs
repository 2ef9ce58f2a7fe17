//! A child process that cannot outlive this one, whatever way this one ends.
//!
//! A shell starts the child and watches a pipe that only we hold. When we say `keep`, or when
//! the pipe closes because we are gone (exit, abort, SIGKILL), the shell kills the child. In the
//! second case it removes the child's directory as well, since nobody else will.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::patience::patient;

/// The child says its pid before it becomes the program, so that line comes before all others.
/// Once it is over, its pid may be another process's: a file tells so. Whoever comes last of the
/// shell and its watcher removes the directory, so that nothing is written into it afterwards.
const SCRIPT: &str = r#"
dir=$1; shift
rm -f "$dir/over" "$dir/abandoned"
exec 3<&0
sh -c 'echo "$$"; exec "$@"' start "$@" </dev/null 3<&- & child=$!
exec >/dev/null 2>&1
{
    read -r word || true >"$dir/abandoned"
    if ! [ -e "$dir/over" ]; then kill -9 "$child"
    elif [ -e "$dir/abandoned" ]; then rm -rf "$dir"; fi
} <&3 &
exec 3<&-
wait "$child"; code=$?
true >"$dir/over"
if [ -e "$dir/abandoned" ]; then rm -rf "$dir"; fi
exit "$code"
"#;

/// How a supervised child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned, with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl Exit {
    /// Exit code 0.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }

    /// A shell reports a child that died of signal n as 128 + n.
    fn from_shell(status: ExitStatus) -> Exit {
        match status.code() {
            Some(code) if code > 128 => Exit::Signal(code - 128),
            Some(code) => Exit::Code(code),
            None => Exit::Signal(std::os::unix::process::ExitStatusExt::signal(&status).unwrap()),
        }
    }
}

/// A running child; dropping it kills the child and waits until it is gone.
#[derive(Debug)]
pub struct Supervised {
    pid: Pid,
    shell: Child,
    watched: Option<ChildStdin>,
    exit: Option<Exit>,
}

impl Supervised {
    /// Starts `program`; `dir` is removed if this process dies before the child.
    pub fn spawn(
        dir: &Path,
        program: &OsStr,
        args: &[OsString],
        envs: &[(String, String)],
        stderr: Stdio,
    ) -> (Supervised, BufReader<ChildStdout>) {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(SCRIPT).arg("supervise").arg(dir).arg(program).args(args);
        shell.envs(envs.iter().map(|(name, value)| (name, value)));
        // A group of its own: Ctrl-C must not kill the shell before it has cleaned up.
        shell.process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut shell = shell.spawn().expect("/bin/sh starts");
        let watched = shell.stdin.take();
        let mut stdout = BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the supervisor names the child's pid");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.unwrap_or_else(|| panic!("the supervisor said {line:?}, not a pid"));
        (Supervised { pid, shell, watched, exit: None }, stdout)
    }

    /// The process id, also after its end.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The exit of the child, if it is over.
    pub fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            let status = self.shell.try_wait().expect("the supervisor is our child");
            self.exit = status.map(Exit::from_shell);
        }
        self.exit
    }

    /// Waits for the child to end by itself, at most `bound`.
    pub async fn wait(&mut self, bound: Duration) -> Option<Exit> {
        let ended = async {
            loop {
                match self.exit() {
                    Some(exit) => return exit,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        };
        patient(bound, ended).await
    }

    /// SIGSTOP. The child keeps its sockets open and answers nothing.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL; returns once the child is reaped. It works on a frozen child as well.
    pub fn kill9(&mut self) -> Exit {
        if let Some(mut watched) = self.watched.take() {
            // Fails only if the child ended first.
            let _ = watched.write_all(b"keep\n");
            drop(watched);
        }
        if self.exit.is_none() {
            let status = self.shell.wait().expect("the supervisor is our child");
            self.exit = Some(Exit::from_shell(status));
        }
        self.exit.unwrap()
    }

    fn signal(&mut self, signal: Signal) {
        assert_eq!(self.exit(), None, "the child {} is over: no {signal:?}", self.pid());
        kill_process(self.pid, signal).expect("the child takes a signal");
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.kill9();
    }
}
