//! A terminal with a program on it, as a person would start it there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use fault_kit::{Server, eventually, secs, within};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::process::Child;

use crate::support::{Marks, SOON, program, send};

pub const CTRL_C: &[u8] = b"\x03";

pub struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Starts a program as the first one of a session that has this terminal.
    pub fn start(server: &Server, marks: &Marks, words: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let end = File::from(open(name, flags, Mode::empty()).unwrap());
        let stream = || Stdio::from(end.try_clone().unwrap());
        let words = [&["--ctty"], words].concat();
        let mut command = program("setsid", &server.url_with_password(), &words);
        command.env("TERM", "xterm").current_dir(marks.path());
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let keyboard = File::from(keyboard);
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::downgrade(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The error comes when no process has the terminal any more.
            while let Ok(count) = output.read(&mut buffer) {
                let Some(shown) = shown.upgrade() else { break };
                shown.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { keyboard, screen, child }
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    pub fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until this text was written.
    pub async fn shows(&self, text: &str) {
        let shown = || async {
            let screen = self.screen();
            if screen.contains(text) { Ok(()) } else { Err(screen) }
        };
        eventually(SOON, shown).await;
    }

    /// Does the terminal collect lines and show what is typed, as a shell expects?
    pub fn is_cooked(&self) -> bool {
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcgetattr(&self.keyboard).unwrap().local_modes.contains(cooked)
    }

    /// Goes away, as the window of a terminal does, when the program next writes something. Returns
    /// how the program has ended behind that.
    pub async fn gone(self) -> ExitStatus {
        let Self { keyboard, screen, mut child } = self;
        drop((keyboard, screen));
        within(secs(60), child.wait()).await.unwrap()
    }

    /// The signal that ended the program, if one did.
    pub async fn ended_by(&mut self) -> Option<i32> {
        within(secs(60), self.child.wait()).await.unwrap().signal()
    }
}
