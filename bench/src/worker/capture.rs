//! The commands of one uncontended cycle of redlock, as the server sees them.
//!
//! The raw limit is measured with these and no others, whatever redlock sends: a client of it
//! takes a lock while `MONITOR` listens, and the commands that name its key are kept.

use redis::Cmd;
use redlock::Redlock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use crate::Failure;

const KEY: &str = "captured";
const CYCLES: usize = 3;

/// Commands as lists of words. [`KEY`] in a word stands for the key.
#[derive(Debug, Clone)]
pub struct Cycle(Vec<Vec<String>>);

impl Cycle {
    /// Acquire, body, release: the first command, and all behind it.
    pub fn of(&self, key: &str) -> (Cmd, Vec<Cmd>) {
        let mut commands = self.0.iter().map(|words| {
            let mut command = Cmd::new();
            for word in words {
                if word.contains(KEY) {
                    command.arg(word.replace(KEY, key));
                } else {
                    command.arg(word);
                }
            }
            command
        });
        let acquire = commands.next().expect("there are two, checked when captured");
        (acquire, commands.collect())
    }
}

pub async fn capture(url: &str) -> Result<Cycle, Failure> {
    let locks = Redlock::connect(url).await?;
    // The first cycle loads scripts, and is not looked at.
    locks.lock(KEY).acquire().await?.release().await?;
    let address = url.trim_start_matches("redis://");
    let stream = TcpStream::connect(address).await?;
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"MONITOR\r\n").await?;
    let answer = lines.next_line().await?;
    if answer.as_deref() != Some("+OK") {
        return Err(format!("MONITOR was answered with {answer:?}").into());
    }
    for _ in 0..CYCLES {
        locks.lock(KEY).acquire().await?.release().await?;
    }
    // A command of ours ends what is to be read.
    locks.lock("end-of-capture").acquire().await?.release().await?;
    let seen = until_the_end(&mut lines).await?;
    let each = seen.len() / CYCLES;
    if each < 2 || !seen.len().is_multiple_of(CYCLES) {
        return Err(format!("not the same commands in each cycle: {seen:?}").into());
    }
    Ok(Cycle(seen[seen.len() - each..].to_vec()))
}

/// What clients sent for the key, without what scripts called.
async fn until_the_end(
    lines: &mut Lines<BufReader<tokio::net::tcp::OwnedReadHalf>>,
) -> Result<Vec<Vec<String>>, Failure> {
    let mut seen = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if line.contains("end-of-capture") {
            return Ok(seen);
        }
        // +1763700000.123456 [0 127.0.0.1:50000] "EVALSHA" "…"; of a script: [0 lua]
        let Some((head, words)) = line.split_once("] ") else { continue };
        if line.contains(KEY) && !head.ends_with(" lua") {
            seen.push(words_of(words)?);
        }
    }
    Err("MONITOR ended".into())
}

/// Quoted words; what redlock sends has no bytes that would be escaped, but a quote might be.
fn words_of(text: &str) -> Result<Vec<String>, Failure> {
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let words = text.ok_or("a line of MONITOR without quotes")?.split("\" \"");
    let words: Vec<_> = words.map(str::to_owned).collect();
    match words.iter().find(|word| word.contains('\\')) {
        Some(odd) => Err(format!("an escaped word: {odd}").into()),
        None => Ok(words),
    }
}
