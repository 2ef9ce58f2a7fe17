//! The worker's side of the two resources. One connection a body: a body that is dropped in the
//! middle of an exchange takes its connection along.

use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// A resource under the fencing token of one hold.
#[derive(Debug)]
pub struct Resource {
    stream: BufReader<UnixStream>,
    key: String,
    fencing: u64,
    worker: String,
}

/// What a claim finds.
#[derive(Debug, Clone, Copy)]
pub struct Claimed {
    pub value: u64,
    /// Writes of this worker that have been accepted, whether it heard of it or not.
    pub applied: u64,
}

impl Resource {
    pub async fn open(socket: &Path, key: &str, fencing: u64, worker: &str) -> Resource {
        let stream = UnixStream::connect(socket).await.expect("the parent listens");
        let stream = BufReader::new(stream);
        Resource { stream, key: key.to_owned(), fencing, worker: worker.to_owned() }
    }

    /// To be done before anything is read; `None`: a later holder has been here.
    pub async fn claim(&mut self) -> Option<Claimed> {
        let answer =
            self.ask(&format!("claim {} {} {}", self.key, self.fencing, self.worker)).await;
        let mut words = answer.strip_prefix("ok ")?.split(' ').map(|word| word.parse().ok());
        Some(Claimed { value: words.next()??, applied: words.next()?? })
    }

    /// False: a later holder has claimed it meanwhile.
    pub async fn write(&mut self, value: u64) -> bool {
        let Resource { key, fencing, worker, .. } = self;
        let request = format!("write {key} {fencing} {worker} {value}");
        self.ask(&request).await == "ok"
    }

    /// The counter that nobody fences.
    pub async fn read_plain(&mut self) -> u64 {
        self.ask(&format!("read {}", self.key)).await.parse().expect("a number")
    }

    pub async fn set_plain(&mut self, value: u64) {
        self.ask(&format!("set {} {value}", self.key)).await;
    }

    async fn ask(&mut self, request: &str) -> String {
        let request = format!("{request}\n");
        self.stream.write_all(request.as_bytes()).await.expect("the parent lives");
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await.expect("the parent answers");
        answer.trim_end().to_owned()
    }
}
