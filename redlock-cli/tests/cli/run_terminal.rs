//! `redlock run` in a script at a terminal: Ctrl-C ends the script as well.

use fault_kit::{Server, eventually, unique_prefix};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Marks, SOON, gone};
use crate::terminal::{CTRL_C, Terminal};

/// A script of bash, in which `$0` is the tool. It shows when it goes on.
fn script(server: &Server, marks: &Marks, line: &str) -> Terminal {
    let script = format!("{line}; echo went on with $?");
    Terminal::start(server, marks, &["bash", "-c", &script, env!("CARGO_BIN_EXE_redlock")])
}

#[tokio::test]
async fn ctrl_c_ends_the_command_and_the_script() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let command = "sh -c 'echo $$ >pid; while :; do sleep 0.02; done'";
    let mut terminal = script(server, &marks, &format!("$0 run -k {key} -- {command}"));
    let pid = marks.there("pid").await;
    terminal.press(CTRL_C);
    let signal = terminal.ended_by().await;
    assert_eq!(signal, Some(Signal::INT.as_raw()), "{}", terminal.screen());
    gone(&pid).await;
    assert!(!terminal.screen().contains("went on"), "{}", terminal.screen());
    assert_eq!(server.raw().get(&format!("lock:{key}")).await, None);
}

#[tokio::test]
async fn ctrl_c_ends_the_waiting_and_the_script() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    assert!(raw.set_foreign_lock(&format!("lock:{key}"), "web-3:x", SOON * 10).await);
    let mut terminal = script(server, &marks, &format!("$0 run -w forever -k {key} true"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
    terminal.press(CTRL_C);
    let signal = terminal.ended_by().await;
    assert_eq!(signal, Some(Signal::INT.as_raw()), "{}", terminal.screen());
    assert!(!terminal.screen().contains("went on"), "{}", terminal.screen());
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 0 }).await;
}

/// The script that waits for it has to go on then, as without redlock.
#[tokio::test]
async fn ctrl_c_that_the_command_handles_is_its_own_affair() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let command = "sh -c 'trap \"exit 7\" INT; echo $$ >pid; while :; do sleep 0.02; done'";
    let mut terminal = script(server, &marks, &format!("$0 run -k {key} -- {command}"));
    marks.there("pid").await;
    terminal.press(CTRL_C);
    terminal.shows("went on with 7").await;
    assert_eq!(terminal.ended_by().await, None);
}

/// The keyboard belongs to a job of the command then, which is gone.
#[tokio::test]
async fn the_terminal_is_taken_back_after_a_shell_that_was_killed_with_its_job() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    // In the job: `$PPID` is redlock, which stands still until both are over, and `$$` the shell.
    let job = r"echo $PPID $$ \$\$ >pids; kill -STOP $PPID; kill -9 $$; kill -9 \$\$";
    std::fs::write(marks.path().join("shell"), format!("sh -c \"{job}\"\n")).unwrap();
    let line =
        format!("$0 run --expire 120s -k {key} -- bash -m shell; read line; echo read $line");
    let mut terminal =
        Terminal::start(server, &marks, &["bash", "-c", &line, env!("CARGO_BIN_EXE_redlock")]);
    let pids = marks.there("pids").await;
    let [redlock, shell, job] = pids.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let is_over = |pid: &str| matches!(state(pid), None | Some('Z'));
    let are_over = || async { is_over(shell) && is_over(job) && state(redlock) == Some('T') };
    eventually(SOON, are_over).await;
    let redlock = Pid::from_raw(redlock.parse().unwrap()).unwrap();
    kill_process(redlock, Signal::CONT).unwrap();
    terminal.press(b"hello\n");
    terminal.shows("read hello").await;
    assert_eq!(terminal.ended_by().await, None);
}

/// A shell starts redlock, and is gone when the command asks for the terminal, which another job
/// has: nothing would continue it.
#[tokio::test]
async fn a_command_that_wants_the_terminal_after_its_shell_has_ended() {
    let server = Server::shared().await;
    let until = |file: &str| format!("until [ -e {file} ]; do sleep 0.02; done");
    let read = format!("{}; read line </dev/tty; echo read >read", until("go"));
    let itself = |key: &str| format!("$0 run -k {key} -- sh command");
    // Its parent is in its group, and has no shell either.
    let in_script = |key: &str| format!("sh -c '$0 run -k {key} -- sh command; true' $0");
    for (is_in_script, ignores, signals) in [
        (false, "", &["SIGHUP"][..]),
        (true, "", &["SIGHUP"]),
        (false, "HUP", &["SIGHUP", "SIGTERM"]),
        (false, "HUP TERM", &["SIGHUP", "SIGTERM", "SIGKILL"]),
    ] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let trap = if ignores.is_empty() { String::new() } else { format!("trap '' {ignores};") };
        std::fs::write(marks.path().join("command"), format!("{trap} {read}")).unwrap();
        let start = if is_in_script { in_script(&key) } else { itself(&key) };
        let line = format!("({start} &); echo on >go; {}", until("end"));
        let words = ["bash", "-m", "-c", &line, env!("CARGO_BIN_EXE_redlock")];
        let mut terminal = Terminal::start(server, &marks, &words);
        for signal in signals {
            terminal.shows(&format!("terminal; it gets {signal}")).await;
        }
        let (raw, lock) = (server.raw(), format!("lock:{key}"));
        eventually(SOON, || async { raw.get(&lock).await.is_none() }).await;
        marks.make("end");
        assert_eq!(terminal.ended_by().await, None, "{}", terminal.screen());
        assert!(!marks.has("read"), "{}", terminal.screen());
    }
}

/// `timeout` puts both into a group in the background, and goes on where such a job is stopped.
#[tokio::test]
async fn a_timeout_ends_a_command_that_waits_for_the_terminal() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let line = format!("timeout 2 $0 run -k {key} -- sh -c 'read line </dev/tty'");
    let mut terminal = script(server, &marks, &line);
    terminal.shows("went on with 124").await;
    assert_eq!(terminal.ended_by().await, None, "{}", terminal.screen());
}

/// The shell goes on, as it does without redlock: programs stop themselves so at Ctrl-Z, and so
/// does the inner one of two `redlock run`.
#[tokio::test]
async fn a_command_that_stops_itself_gives_the_keyboard_back() {
    let server = Server::shared().await;
    for inner in [false, true] {
        let (marks, key) = (Marks::new(), unique_prefix());
        let inner = if inner { format!("$0 run -k {key}-inner --") } else { String::new() };
        let command = r"sh -c 'kill -STOP $$; exit 3'";
        let line =
            format!("$0 run -k {key} -- {inner} {command}; echo stopped; fg; echo ended with $?");
        let words = ["bash", "-m", "-c", &line, env!("CARGO_BIN_EXE_redlock")];
        let mut terminal = Terminal::start(server, &marks, &words);
        terminal.shows("ended with 3").await;
        assert!(terminal.screen().contains("stopped"), "{}", terminal.screen());
        assert_eq!(terminal.ended_by().await, None, "{}", terminal.screen());
    }
}

/// An editor that is killed when its lock is lost cannot do it itself.
#[tokio::test]
async fn the_modes_of_the_terminal_are_set_back_after_a_command_that_was_killed() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let command = r"sh -c 'stty -icanon -echo; kill -KILL $$'";
    let modes = "stty -a | tr -d '\n' | grep -o -- '-*icanon.*' | grep -o -- '-*echo '";
    let line = format!("$0 run -k {key} -- {command}");
    let mut terminal = script(server, &marks, &format!("{line}; echo modes $({modes})"));
    terminal.shows("modes echo").await;
    assert_eq!(terminal.ended_by().await, None, "{}", terminal.screen());
}

/// What a process does, as the letter in the table of processes.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}
