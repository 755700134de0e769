//! The throw-away folder, and the program that serves from it as a child of this one.
//!
//! Invariant: whatever happens, the child and its PostgreSQL have ended before the folder goes
//! (`Stage::clear`).
//! Never uses the place this program was told of: folder, address and database are its own.

use super::Trouble;
use engine::postgres::{
    ConnectConfig, Host,
    embedded::{Cluster, Options},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::VecDeque,
    env, fs,
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

/// A first start creates a cluster, one after a kill recovers it.
const START_LIMIT: Duration = Duration::from_secs(90);
const HELPER_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(15);
const POSTGRES_LIMIT: Duration = Duration::from_secs(10);
const REMOVE_LIMIT: Duration = Duration::from_secs(5);
/// Lines of the child's own log that are kept for the case that something fails.
const LOG_LINES_MAX: usize = 60;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn keep(&self, from: impl AsyncRead + Unpin + Send + 'static) {
        let log = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                log.push(line);
            }
        });
    }
}

pub struct Stage {
    folder: TempDir,
    /// The folder as the child's PostgreSQL uses it.
    cluster: Cluster,
    program: Option<Child>,
    /// Where the program said it listens.
    address: Option<SocketAddr>,
    executable: PathBuf,
    log: Log,
}

impl Stage {
    pub fn open() -> Result<Self, Trouble> {
        let stuck = |what: &str, error: std::io::Error| Trouble::Stuck(format!("{what}: {error}"));
        let executable = env::current_exe().map_err(|error| stuck("this program does not find itself", error))?;
        let folder = tempfile::Builder::new().prefix("tallyhold-demo-").tempdir();
        let folder = folder.map_err(|error| stuck("a temporary folder cannot be made", error))?;
        let cluster = Cluster::open(Options { data: folder.path().into(), ..Options::default() })
            .map_err(|error| Trouble::Stuck(error.to_string()))?;
        Ok(Self { folder, cluster, program: None, address: None, executable, log: Log::default() })
    }

    /// This program on the folder, untouched by what the environment says of other places.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        for (name, _) in env::vars_os() {
            let ours = name.to_string_lossy();
            if ours == "DATABASE_URL" || (ours.starts_with("TALLYHOLD_") && ours != "TALLYHOLD_PG_BIN") {
                command.env_remove(&name);
            }
        }
        // Its log is kept as text.
        command.env("NO_COLOR", "1");
        command.arg("--data").arg(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a verb of this program to its end: whether it succeeded, and what it printed.
    pub async fn run(&self, verb: &[&str]) -> Result<(bool, String), Trouble> {
        let name = verb.join(" ");
        let ended = timeout(HELPER_LIMIT, self.command().args(verb).output()).await;
        let output = ended
            .map_err(|_| Trouble::Stuck(format!("`tallyhold {name}` did not end within {HELPER_LIMIT:?}")))?
            .map_err(|error| Trouble::Stuck(format!("`tallyhold {name}` cannot be started: {error}")))?;
        String::from_utf8_lossy(&output.stderr).lines().for_each(|line| self.log.push(line.to_owned()));
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    /// Starts the serving program and waits until it says where it listens.
    pub async fn serve(&mut self) -> Result<SocketAddr, Trouble> {
        let mut child = self
            .command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .spawn()
            .map_err(|error| Trouble::Stuck(format!("the program cannot be started: {error}")))?;
        self.log.keep(child.stderr.take().expect("it is piped"));
        let stdout = child.stdout.take().expect("it is piped");
        self.program = Some(child);
        let announced = async {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = announced(&line) {
                    // Read on, or the program would one day block on a full pipe.
                    Log::default().keep(lines.into_inner());
                    return Some(address);
                }
            }
            None
        };
        self.address = timeout(START_LIMIT, announced)
            .await
            .map_err(|_| Trouble::Stuck(format!("the program does not serve after {START_LIMIT:?}")))?;
        self.address.ok_or_else(|| Trouble::Stuck("the program ended before it served".into()))
    }

    /// # Panics
    /// When nothing was served yet: a flaw of the story.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("the program serves")
    }

    /// The superuser's way into the child's PostgreSQL.
    pub fn database(&self) -> ConnectConfig {
        self.cluster.config("postgres", "tallyhold")
    }

    /// Ends the program as a power cut would, and waits until it is gone.
    pub async fn kill(&mut self) -> Result<(), Trouble> {
        let Some(mut program) = self.program.take() else { return Ok(()) };
        program.kill().await.map_err(|error| Trouble::Stuck(format!("the program cannot be killed: {error}")))
    }

    /// Stops the program where it stands; its PostgreSQL goes on.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    fn signal(&self, signal: Signal) {
        // Not yet reaped, so the number is still our child's.
        let pid = self.program.as_ref().and_then(Child::id);
        if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }

    /// What the program and its verbs last logged, and whether the program ended by itself.
    pub fn log(&mut self) -> Vec<String> {
        if let Some(Ok(Some(status))) = self.program.as_mut().map(Child::try_wait) {
            self.log.push(format!("(it ended: {status})"));
        }
        self.log.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Stops the program and its PostgreSQL, and removes the folder.
    pub async fn clear(mut self) -> Result<(), Trouble> {
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        if let Some(mut program) = self.program.take()
            && timeout(STOP_LIMIT, program.wait()).await.is_err()
        {
            let _ = program.kill().await;
        }
        self.postgres_ends().await;
        for host in self.database().get_hosts() {
            if let Host::Unix(sockets) = host {
                let _ = fs::remove_dir_all(sockets);
            }
        }
        // Not always the folder asked for: see `Cluster::open`.
        let used = self.cluster.data().to_owned();
        let asked = self.folder.keep();
        removed(&used).await?;
        removed(&asked).await
    }

    /// A killed program's PostgreSQL shuts down by itself on Linux only.
    async fn postgres_ends(&self) {
        let deadline = Instant::now() + POSTGRES_LIMIT;
        let mut signal = Signal::INT;
        while let Some(pid) = self.cluster.running() {
            let _ = kill_process(pid, signal);
            if Instant::now() > deadline {
                signal = Signal::QUIT;
            }
            if Instant::now() > deadline + POSTGRES_LIMIT {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What a program killed during its start left running may still write into the folder.
async fn removed(folder: &Path) -> Result<(), Trouble> {
    let deadline = Instant::now() + REMOVE_LIMIT;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                if Instant::now() > deadline {
                    return Err(Trouble::Stuck(format!("{} cannot be removed: {error}", folder.display())));
                }
                sleep(Duration::from_millis(50)).await;
            }
            _ => return Ok(()),
        }
    }
}

/// `Tallyhold serves http://127.0.0.1:8080  (data: …)`
fn announced(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("Tallyhold serves http://")?.split_whitespace().next()?.parse().ok()
}
