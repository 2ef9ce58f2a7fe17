//! What all measurements use: a server, the programs of the workers, a place for files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fault_kit::Server;
use redis::aio::MultiplexedConnection;

use super::cores::Cores;
use super::open::Pace;
use super::options::Options;
use super::subjects::{Program, Role, SUBJECTS};
use crate::Failure;

pub struct Lab {
    pub options: Options,
    pub cores: Cores,
    /// The server that all share who do not say otherwise.
    pub redis: Place,
    /// The one of [`Role::Valkey`], or why there is none.
    pub valkey: Result<Place, String>,
    /// The project's directory.
    pub root: PathBuf,
    /// Where everything is built.
    pub target: PathBuf,
    /// A file system in memory, where there is one: files of cells.
    pub scratch: PathBuf,
    /// How to start the workers of each directory of `bench/peers`, or why that cannot be.
    pub peers: BTreeMap<&'static str, Result<Vec<String>, String>>,
    pub round: usize,
    /// What a round trip and a body take, measured once in a round where it is needed.
    pub pace: Option<Pace>,
}

/// A server, which ends with its laboratory.
pub struct Place {
    pub url: String,
    pub connection: MultiplexedConnection,
    pub server: Server,
}

impl Place {
    async fn of(server: Server) -> Result<Place, Failure> {
        let connection = redis::Client::open(server.url())?;
        let connection = connection.get_multiplexed_async_connection().await?;
        Ok(Place { url: server.url(), connection, server })
    }

    /// `scripts/bench` says where the program is.
    async fn valkey(cores: &Cores) -> Result<Result<Place, String>, Failure> {
        let program = std::env::var_os("REDLOCK_BENCH_VALKEY").map(PathBuf::from);
        let Some(program) = program.filter(|program| program.is_file()) else {
            return Ok(Err("REDLOCK_BENCH_VALKEY names no valkey-server".to_owned()));
        };
        let server = cores.of_servers(Server::builder().program(program).start()).await;
        Ok(Ok(Place::of(server).await?))
    }
}

impl Lab {
    pub async fn open(options: &Options) -> Result<Lab, Failure> {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = bench.parent().ok_or("bench is in the project")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| bench.join("target"));
        let peers = prepare_peers(options, &root, &target);
        let cores = Cores::split();
        let redis = Place::of(cores.of_servers(Server::start()).await).await?;
        let valkey = Place::valkey(&cores).await?;
        let memory = Path::new("/dev/shm");
        let scratch = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let scratch = scratch.join(format!("redlock-bench-{}", std::process::id()));
        std::fs::create_dir_all(&scratch)?;
        let options = options.clone();
        let (round, pace) = (0, None);
        Ok(Lab { options, cores, redis, valkey, root, target, scratch, peers, round, pace })
    }

    /// Where a subject has its locks, if it has them on one server.
    pub fn place(&self, role: Role) -> Result<&Place, Failure> {
        match (&self.valkey, role) {
            (Ok(valkey), Role::Valkey) => Ok(valkey),
            (Err(why), Role::Valkey) => Err(why.clone().into()),
            _ => Ok(&self.redis),
        }
    }

    pub fn begin_round(&mut self, round: usize) {
        self.round = round;
        self.pace = None;
    }

    /// The program of a subject's workers with its first arguments.
    pub fn command(&self, program: Program) -> Result<Vec<String>, Failure> {
        match program {
            Program::Own => {
                let own = std::env::current_exe()?.to_string_lossy().into_owned();
                Ok(vec![own, "worker".to_owned()])
            }
            Program::Peer(dir) => Ok(self.peers.get(dir).ok_or("not prepared")?.clone()?),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Builds what can be built. `prepare` in each directory takes the directory to build in, and
/// prints the command that starts a worker, a word a line; or says why it cannot.
fn prepare_peers(
    options: &Options,
    root: &Path,
    target: &Path,
) -> BTreeMap<&'static str, Result<Vec<String>, String>> {
    let names = || SUBJECTS.iter().map(|subject| subject.name);
    let mut prepared = BTreeMap::new();
    for subject in SUBJECTS.iter().filter(|subject| options.wants(subject.name, names())) {
        let Program::Peer(dir) = subject.program else { continue };
        prepared.entry(dir).or_insert_with(|| {
            eprintln!("bench: preparing bench/peers/{dir}");
            prepare(&root.join("bench/peers").join(dir), &target.join("peers").join(dir))
        });
    }
    prepared
}

fn prepare(source: &Path, target: &Path) -> Result<Vec<String>, String> {
    std::fs::create_dir_all(target).map_err(|error| error.to_string())?;
    let output = Command::new(source.join("prepare")).current_dir(source).arg(target).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        let command = String::from_utf8_lossy(&output.stdout);
        return Ok(command.lines().map(str::to_owned).collect());
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    let last = messages.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it could not be built").to_owned())
}
