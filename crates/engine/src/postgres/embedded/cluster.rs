//! A cluster in a folder: how it is created, run, and rid of an orphaned server.
//!
//! Owns what lies in the data folder (`cluster/`, `lock`, `server.log`) and the socket folder.
//! Invariant: `cluster/` is complete or absent (initdb elsewhere, then rename).
//! Invariant: PostgreSQL never runs as root (`Account`).
//! Never decides when to start or stop: `Embedded` and the test server do.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    fs::OFlags,
    process::{Pid, Signal, geteuid, kill_process},
};
use tokio::time::{self, Instant};
use tokio_postgres::{NoTls, error::SqlState};

use super::{
    Binaries, EmbeddedError, FAST_LIMIT, IMMEDIATE_LIMIT, Options,
    binaries::{binaries, installed},
    place::{Account, make_folder, path_key, place_as_root, resolve},
};

/// `<folder>/.s.PGSQL.<port>` must fit into sockaddr_un: 107 bytes on Linux, 103 on macOS.
const SOCKET_BASE_MAX: usize = 60;
const LOG_BYTES_MAX: u64 = 10 << 20;
const TAIL_BYTES: u64 = 4096;

/// Sized for a small machine; `Options::settings` override.
const SETTINGS: [(&str, &str); 5] = [
    ("max_connections", "100"),
    ("shared_buffers", "256MB"),
    ("unix_socket_permissions", "0700"),
    // `Supervisor` reads the log for one message, people the rest.
    ("lc_messages", "C"),
    ("cluster_name", "tallyhold"),
];

/// What ends the postmaster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// A fast shutdown when the spawning thread ends, however it ends (Linux; elsewhere the
    /// next start finds the orphan). In a process group of its own: a Ctrl-C in the terminal
    /// must reach the program first.
    EndsWithThread,
    /// In a session of its own; outlives the program and its terminal.
    Detached,
}

/// A folder made ready to be locked, created in and run.
pub struct Cluster {
    data: PathBuf,
    folder: PathBuf,
    sockets: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    binaries: Binaries,
    account: Option<Account>,
}

impl Cluster {
    /// Makes the data folder and chooses the server's version and user. Takes no lock.
    pub fn open(options: Options) -> Result<Self, EmbeddedError> {
        let asked = resolve(&options.data)?;
        let (data, account) = if geteuid().is_root() {
            let (data, account) = place_as_root(asked)?;
            (data, Some(account))
        } else {
            (asked, None)
        };
        make_folder(&data, account.as_ref()).map_err(|source| EmbeddedError::io("use the folder", &data, source))?;
        if let Some(account) = account.as_ref().filter(|account| !account.reaches(&data)) {
            return Err(EmbeddedError::Unreachable { folder: data, user: account.name.clone() });
        }
        let folder = data.join("cluster");
        let binaries = fitting_binaries(&data, &folder)?;
        let mut settings: Vec<(String, String)> =
            SETTINGS.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let listen = if options.tcp_port.is_some() { "127.0.0.1" } else { "" };
        settings.push(("listen_addresses".into(), listen.into()));
        settings.extend(options.settings);
        Ok(Self {
            sockets: socket_folder(&data, account.as_ref()),
            port: options.tcp_port.unwrap_or(5432),
            data,
            folder,
            settings,
            binaries,
            account,
        })
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn log(&self) -> PathBuf {
        self.data.join("server.log")
    }

    /// Opens the lock file without locking it.
    pub fn lock_file(&self) -> Result<File, EmbeddedError> {
        let path = self.data.join("lock");
        self.open_file(OpenOptions::new().read(true).write(true), &path)
            .map_err(|source| EmbeddedError::io("open", &path, source))
    }

    /// Takes the folder for this process. The kernel lets go when the process ends, so a file
    /// left behind is no obstacle. The file names the holder, for the message.
    pub fn lock(&self) -> Result<File, EmbeddedError> {
        let mut file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => {}
            // GUARD(cluster_lock): a second program would end the first one's server as an orphan.
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.is_empty() { "unknown".into() } else { holder };
                return Err(EmbeddedError::Held { folder: self.data.clone(), holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(EmbeddedError::io("lock", &self.data, source));
            }
        }
        file.set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()))
            .map_err(|source| EmbeddedError::io("write the lock in", &self.data, source))?;
        Ok(file)
    }

    /// Makes the folder ready for a postmaster: no orphan, no stale socket, a complete cluster.
    /// Hold the lock.
    pub async fn prepare(&self) -> Result<(), EmbeddedError> {
        self.halt_orphan().await?;
        // A socket's lock file holds a pid as well, as misleading as `postmaster.pid`'s.
        renew_sockets(&self.sockets, self.account.as_ref())?;
        if self.folder.exists() { Ok(()) } else { self.create().await }
    }

    async fn create(&self) -> Result<(), EmbeddedError> {
        // The pid in the name keeps us apart from an initdb that outlived a killed program.
        let draft = self.data.join(format!("initdb-{}", std::process::id()));
        // C.UTF-8 knows the case of letters beyond ASCII, but not every system has it.
        let mut output = String::new();
        for locale in ["--locale=C.UTF-8", "--no-locale"] {
            self.remove_drafts();
            DirBuilder::new()
                .mode(0o700)
                .create(&draft)
                .and_then(|()| Account::own(self.account.as_ref(), &draft))
                .map_err(|source| EmbeddedError::io("make", &draft, source))?;
            let mut command = self.command("initdb");
            command.args(["--username=postgres", "--encoding=UTF8", "--data-checksums", locale]);
            command.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
            command.arg("-D").arg(&draft);
            let done = tokio::process::Command::from(command)
                .kill_on_drop(true)
                .output()
                .await
                .map_err(|source| EmbeddedError::io("run initdb for", &self.data, source))?;
            if done.status.success() {
                return fs::rename(&draft, &self.folder)
                    .and_then(|()| File::open(&self.data)?.sync_all())
                    .map_err(|source| EmbeddedError::io("finish", &self.folder, source));
            }
            output = String::from_utf8_lossy(&done.stderr).trim().into();
            if !output.contains("locale") {
                break;
            }
        }
        self.remove_drafts();
        Err(EmbeddedError::Initdb { folder: self.data.clone(), output })
    }

    /// What earlier, interrupted runs of initdb left. Best effort: a draft is only litter.
    fn remove_drafts(&self) {
        for entry in fs::read_dir(&self.data).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(b"initdb-") {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The postmaster that runs on this folder, whoever started it.
    pub fn running(&self) -> Option<Pid> {
        let pid = self.noted_pid()?;
        command_line(pid).is_some_and(|line| self.is_ours(&line)).then_some(pid)
    }

    fn noted_pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.folder.join("postmaster.pid")).ok()?;
        Pid::from_raw(text.lines().next()?.trim().parse().ok()?)
    }

    /// Shuts down a server that runs on this folder without its program: we hold the lock, so
    /// whoever started that server is gone.
    async fn halt_orphan(&self) -> Result<(), EmbeddedError> {
        let Some(pid) = self.running() else {
            return self.forget_foreign_pid();
        };
        tracing::warn!(pid = pid.as_raw_pid(), folder = %self.data.display(),
            "stopping a PostgreSQL server that an earlier program left behind");
        for (signal, limit) in [(Signal::INT, FAST_LIMIT), (Signal::QUIT, IMMEDIATE_LIMIT)] {
            let _ = kill_process(pid, signal);
            // It is not our child, so there is no end to wait for, only to look for.
            let deadline = Instant::now() + limit;
            while Instant::now() < deadline {
                if self.running() != Some(pid) {
                    return Ok(());
                }
                time::sleep(Duration::from_millis(20)).await;
            }
        }
        Err(EmbeddedError::Orphan { pid: pid.as_raw_pid(), folder: self.data.clone() })
    }

    /// Removes a `postmaster.pid` whose number belongs to another program by now, as happens in
    /// containers, or to a dead postmaster that nobody reaped: PostgreSQL would refuse to start
    /// for ever. It still finds living backends, by the shared memory of the folder's inode.
    /// A number of nobody or of some PostgreSQL is left for it to judge.
    fn forget_foreign_pid(&self) -> Result<(), EmbeddedError> {
        let foreign = self.noted_pid().and_then(command_line).is_some_and(|line| !line.contains("postgres"));
        if foreign {
            let path = self.folder.join("postmaster.pid");
            fs::remove_file(&path).map_err(|source| EmbeddedError::io("remove the stale", &path, source))?;
        }
        Ok(())
    }

    /// Whether a command line is that of a postmaster on this folder.
    fn is_ours(&self, line: &str) -> bool {
        line.contains(&format!("/postgres -D {}", self.folder.to_string_lossy()))
    }

    /// The postmaster, ready to be spawned; its output goes to `server.log`.
    #[allow(unsafe_code, reason = "std has no safe way to a session or a death signal")]
    pub fn postmaster(&self, lifetime: Lifetime) -> io::Result<Command> {
        let path = self.log();
        if self.log_length() > LOG_BYTES_MAX {
            fs::rename(&path, self.data.join("server.log.1"))?;
        }
        let log = self.open_file(OpenOptions::new().append(true), &path)?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.folder);
        let place =
            [("port", self.port.to_string()), ("unix_socket_directories", self.sockets.to_string_lossy().into_owned())];
        for (name, value) in &place {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdout(log.try_clone()?).stderr(log);
        if lifetime == Lifetime::EndsWithThread {
            command.process_group(0);
        }
        let in_child = move || {
            match lifetime {
                Lifetime::Detached => {
                    rustix::process::setsid()?;
                }
                #[cfg(target_os = "linux")]
                Lifetime::EndsWithThread => {
                    rustix::process::set_parent_process_death_signal(Some(Signal::INT))?;
                }
                #[cfg(not(target_os = "linux"))]
                Lifetime::EndsWithThread => {}
            }
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe work is allowed; this is one
        // system call, without allocation or lock.
        unsafe { command.pre_exec(in_child) };
        Ok(command)
    }

    /// One of the server's programs, as its user, free of our environment's PG* variables:
    /// PGDATA, PGPORT and their like would redirect it.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.bin.join(program));
        for (name, _) in env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        // Messages in English, whatever the terminal; data has the cluster's own locale.
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        if let Some(account) = &self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// Whether it serves connections now; a full house does.
    pub async fn answers(&self) -> bool {
        let attempt = async {
            let (client, connection) = self.config("postgres", "postgres").connect(NoTls).await?;
            drop(client);
            connection.await
        };
        match time::timeout(Duration::from_secs(5), attempt).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
            Err(_) => false,
        }
    }

    pub fn config(&self, user: &str, dbname: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.sockets).port(self.port).user(user).dbname(dbname);
        config
    }

    pub fn url(&self, user: &str, dbname: &str) -> String {
        let sockets = percent(&self.sockets.to_string_lossy());
        format!("postgresql://{}@{sockets}:{}/{}", percent(user), self.port, percent(dbname))
    }

    /// Whether the postmaster that logged `tail` ended because backends of a killed predecessor
    /// still live. They end by themselves: try again.
    pub fn waits_for_backends(tail: &str) -> bool {
        tail.contains("shared memory block") && tail.contains("still in use")
    }

    pub fn log_length(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    /// The last lines written after `from`, at most 4 KiB.
    pub fn log_tail(&self, from: u64) -> String {
        let start = from.max(self.log_length().saturating_sub(TAIL_BYTES));
        let mut bytes = Vec::new();
        let read = File::open(self.log()).and_then(|mut log| {
            log.seek(SeekFrom::Start(start))?;
            log.read_to_end(&mut bytes)
        });
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).trim().into(),
            Err(error) => format!("(the log cannot be read: {error})"),
        }
    }

    /// Removes the socket folder, with the sockets of a killed server; it must have ended.
    pub(super) fn leave(&self) {
        let _ = fs::remove_dir_all(&self.sockets);
    }

    /// Creates or opens a file that both we and the server's user may use. Its folder is that
    /// user's: a link put there must not lead root to another file.
    fn open_file(&self, options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        let file = options
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        if let Some(account) = &self.account {
            fchown(&file, Some(account.uid), Some(account.gid))?;
        }
        Ok(file)
    }
}

/// The server for what the folder holds; for a new folder, the best one found.
fn fitting_binaries(data: &Path, cluster: &Path) -> Result<Binaries, EmbeddedError> {
    let foreign = |cause| EmbeddedError::Foreign { folder: data.into(), cause };
    if data.join("PG_VERSION").exists() {
        return Err(foreign("it is itself a PostgreSQL cluster"));
    }
    if !cluster.exists() {
        return binaries();
    }
    let version = fs::read_to_string(cluster.join("PG_VERSION")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => foreign("its `cluster` has no PG_VERSION"),
        _ => EmbeddedError::io("read", cluster, error),
    })?;
    let version = version.trim();
    let found = installed()?;
    if let Some(fitting) = found.iter().find(|found| found.major.to_string() == version) {
        return Ok(fitting.clone());
    }
    let list = |b: &Binaries| format!("PostgreSQL {} in {}", b.major, b.bin.display());
    let found = match found.as_slice() {
        [] => "no PostgreSQL at all".into(),
        some => some.iter().map(list).collect::<Vec<_>>().join(", "),
    };
    Err(EmbeddedError::OtherVersion { folder: data.into(), version: version.into(), found })
}

/// Short, whatever the data folder's path, and free of what would need quoting.
fn socket_folder(data: &Path, account: Option<&Account>) -> PathBuf {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-".contains(b);
    let own = env::temp_dir();
    let bytes = own.as_os_str().as_bytes();
    // As another user the server may have no way into root's own TMPDIR.
    let usable = account.is_none() && bytes.len() <= SOCKET_BASE_MAX && bytes.iter().all(plain);
    let base = if usable { own } else { "/tmp".into() };
    base.join(format!("tallyhold-{}", path_key(data)))
}

/// An empty socket folder. Others may write to the temp folder, too: what lies there under our
/// name is only replaced when it is a folder of ours.
fn renew_sockets(folder: &Path, account: Option<&Account>) -> Result<(), EmbeddedError> {
    let io = |source| EmbeddedError::io("make the socket folder", folder, source);
    match fs::symlink_metadata(folder) {
        Ok(found) => {
            let owner = Some(found.uid());
            let ours = owner == Some(geteuid().as_raw()) || owner == account.map(|a| a.uid);
            if !found.is_dir() || !ours {
                return Err(EmbeddedError::Sockets { folder: folder.into(), owner: found.uid() });
            }
            fs::remove_dir_all(folder).map_err(io)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    DirBuilder::new().mode(0o700).create(folder).map_err(io)?;
    Account::own(account, folder).map_err(io)
}

fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The arguments of a process, with blanks between; empty for one that has died but was not
/// reaped, None for none.
fn command_line(pid: Pid) -> Option<String> {
    let pid = pid.as_raw_pid().to_string();
    let line = if cfg!(target_os = "linux") {
        // Unlike its links to program and folder, readable without CAP_SYS_PTRACE.
        fs::read(Path::new("/proc").join(&pid).join("cmdline")).ok()?
    } else {
        let ps = Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid]).output().ok()?;
        ps.status.success().then_some(ps.stdout)?
    };
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}
