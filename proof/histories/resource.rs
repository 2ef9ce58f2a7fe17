//! The worker's side of the resources. One connection a body: a body that is dropped in the
//! middle of an exchange takes its connection along.

use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// A resource under the fencing token of one hold.
#[derive(Debug)]
pub(crate) struct Resource {
    stream: BufReader<UnixStream>,
    key: String,
    fencing: u64,
    worker: String,
}

/// What a claim finds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed {
    pub value: u64,
    /// Writes of this worker that have been accepted, whether it heard of it or not.
    pub applied: u64,
}

/// One is to be added to both counters of a resource, which were read.
#[derive(Debug)]
pub(crate) struct Addition {
    resource: Resource,
    claimed: Option<Claimed>,
    plain: u64,
}

/// Does the key of a lock stand on the servers, for this process? What is wrong, if anything.
pub(crate) async fn look_for(socket: &Path, process: &str, key: &str) -> Option<String> {
    let answer = ask(&mut connect(socket).await, &format!("held {process} {key}")).await;
    Some(answer).filter(|answer| answer != "ok")
}

impl Resource {
    pub(crate) async fn open(socket: &Path, key: &str, fencing: u64, worker: &str) -> Resource {
        let stream = connect(socket).await;
        Resource { stream, key: key.to_owned(), fencing, worker: worker.to_owned() }
    }

    pub(crate) async fn begin_addition(mut self) -> Addition {
        let claimed = self.claim().await;
        let plain = self.read_plain().await;
        self.write_part("begin").await;
        Addition { resource: self, claimed, plain }
    }

    /// To be done before anything is read; `None`: a later holder has been here.
    pub(crate) async fn claim(&mut self) -> Option<Claimed> {
        let answer =
            self.ask(&format!("claim {} {} {}", self.key, self.fencing, self.worker)).await;
        let mut words = answer.strip_prefix("ok ")?.split(' ').map(|word| word.parse().ok());
        Some(Claimed { value: words.next()??, applied: words.next()?? })
    }

    /// False: a later holder has claimed it meanwhile.
    pub(crate) async fn write(&mut self, value: u64) -> bool {
        let Resource { key, fencing, worker, .. } = self;
        let request = format!("write {key} {fencing} {worker} {value}");
        self.ask(&request).await == "ok"
    }

    /// One of the two steps in which a writer writes, `begin` and `end`.
    pub(crate) async fn write_part(&mut self, part: &str) {
        self.ask(&format!("part {} {part} {}", self.key, self.fencing)).await;
    }

    /// The tokens under which the two parts were written, and the highest one that a writer has
    /// claimed.
    pub(crate) async fn look(&mut self) -> [u64; 3] {
        let answer = self.ask(&format!("look {} {}", self.key, self.fencing)).await;
        let mut words = answer.split(' ').map(|word| word.parse().expect("a number"));
        [(); 3].map(|()| words.next().expect("three numbers"))
    }

    /// What is wrong with a second look, if anything. What a writer from before writes late is for
    /// the fence to refuse: it may have been frozen behind its last look at the clock.
    pub(crate) fn judge(&self, first: [u64; 3], second: [u64; 3]) -> Option<String> {
        let is_news = |(first, second): (&u64, &u64)| first != second && *second > self.fencing;
        let is_wrong = first[2] > self.fencing || first.iter().zip(&second).any(is_news);
        is_wrong.then(|| format!("{first:?} became {second:?} under {}", self.fencing))
    }

    /// The counter that nobody fences.
    pub(crate) async fn read_plain(&mut self) -> u64 {
        self.ask(&format!("read {}", self.key)).await.parse().expect("a number")
    }

    pub(crate) async fn set_plain(&mut self, value: u64) {
        self.ask(&format!("set {} {value}", self.key)).await;
    }

    async fn ask(&mut self, request: &str) -> String {
        ask(&mut self.stream, request).await
    }
}

impl Addition {
    /// Writes of this worker that had been accepted; `None`: a later holder had been here.
    pub(crate) fn applied(&self) -> Option<u64> {
        self.claimed.map(|claimed| claimed.applied)
    }

    /// How many of them there are now; 0 for a holder whose time was over.
    pub(crate) async fn finish(mut self) -> u64 {
        let Addition { resource, claimed, plain } = &mut self;
        resource.write_part("end").await;
        // A program without a fence goes on where the other one has to stop.
        resource.set_plain(*plain + 1).await;
        let Some(claimed) = claimed else { return 0 };
        let written = resource.write(claimed.value + 1).await;
        claimed.applied + u64::from(written)
    }
}

async fn connect(socket: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket).await.expect("the parent listens"))
}

async fn ask(stream: &mut BufReader<UnixStream>, request: &str) -> String {
    stream.write_all(format!("{request}\n").as_bytes()).await.expect("the parent lives");
    let mut answer = String::new();
    stream.read_line(&mut answer).await.expect("the parent answers");
    answer.trim_end().to_owned()
}
