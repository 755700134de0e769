//! Where the data lies: a PostgreSQL of our own in a folder, or one that is given.
//!
//! Owns the way from the command line's `--data` and `--database-url` to an engine's
//! configuration, the server's secret, and the note of where the program that holds a folder serves.

use engine::{
    Config,
    postgres::{
        self, ConnectError,
        embedded::{Cluster, Embedded, EmbeddedError, Options, holds_cluster},
    },
};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{self, Path, PathBuf},
    str::FromStr,
};
use thiserror::Error;

/// Characters a secret must have.
pub const SECRET_CHARS_MIN: usize = 32;
const DATABASE: &str = "tallyhold";
/// Who serves: bound by row-level security.
const SERVER_ROLE: &str = "tallyhold_server";
/// In the data folder: where the program that serves from it does so.
const ADDRESS_FILE: &str = "address";

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("--database-url is no PostgreSQL URL: {0}")]
    Url(String),
    #[error("TALLYHOLD_SECRET has fewer than {SECRET_CHARS_MIN} characters; make one with `openssl rand -hex 32`")]
    WeakSecret,
    #[error(
        "TALLYHOLD_SECRET is missing: with a database of your own the secret is yours to keep, the same for every \
         replica; make one with `openssl rand -hex 32`"
    )]
    NoSecret,
    #[error("the secret in {0} cannot be read or written: {1}")]
    SecretFile(PathBuf, io::Error),
    #[error("the address of this program cannot be written to {0}: {1}")]
    AddressFile(PathBuf, io::Error),
    #[error("there is no database in {0}; `tallyhold serve` or `tallyhold migrate` makes one")]
    Absent(PathBuf),
}

/// The two ways to say where the data lies.
#[derive(Debug, Clone, Default)]
pub struct Place {
    pub data: PathBuf,
    pub database_url: Option<String>,
    pub secret: Option<String>,
    /// Send statements without names, for a transaction pooler that does not know them.
    pub unnamed: bool,
}

/// An opened place. With an embedded server it holds that server's life.
pub struct Store {
    pub config: Config,
    embedded: Option<Embedded>,
    /// What people are told: a folder, or a host.
    pub label: String,
    /// The migrations that opening it applied.
    pub applied: Vec<String>,
    /// Where the program serves whose embedded server is shared.
    pub served_at: Option<SocketAddr>,
}

impl Store {
    /// Opens the place for serving: an embedded server must be ours alone.
    pub async fn own(place: &Place) -> Result<Self, StoreError> {
        let mut store = match &place.database_url {
            Some(url) => Self::given(url, place)?,
            None => Self::embedded(place).await?,
        };
        store.config.named = !place.unnamed;
        Ok(store)
    }

    /// Opens the place for a command beside a running server: where another program holds the
    /// folder, its server is shared.
    pub async fn shared(place: &Place) -> Result<Self, StoreError> {
        match Self::own(place).await {
            Err(StoreError::Embedded(held @ EmbeddedError::Held { .. })) => {
                let cluster = Cluster::open(options(place))?;
                if !cluster.answers().await {
                    return Err(held.into());
                }
                let secret = folder_secret(cluster.data(), place.secret.as_deref())?;
                let config = Config::new(cluster.config(SERVER_ROLE, DATABASE), secret);
                let label = cluster.data().display().to_string();
                let served_at = served_at(cluster.data());
                Ok(Self { config, embedded: None, label, applied: Vec::new(), served_at })
            }
            other => other,
        }
    }

    /// As [`Store::shared`], for a command that is about what is there: in a folder without a
    /// database it would find a new, empty one, and nothing off in it.
    pub async fn existing(place: &Place) -> Result<Self, StoreError> {
        if place.database_url.is_none() && !holds_cluster(&place.data) {
            let folder = path::absolute(&place.data).unwrap_or_else(|_| place.data.clone());
            return Err(StoreError::Absent(folder));
        }
        Self::shared(place).await
    }

    fn given(url: &str, place: &Place) -> Result<Self, StoreError> {
        let database = parse_url(url)?;
        let secret = place.secret.as_deref().ok_or(StoreError::NoSecret)?;
        let label = database
            .get_hosts()
            .iter()
            .map(|host| match host {
                postgres::Host::Tcp(name) => name.clone(),
                postgres::Host::Unix(path) => path.display().to_string(),
            })
            .collect::<Vec<_>>()
            .join(", ");
        let config = Config::new(database, strong(secret)?);
        Ok(Self { config, embedded: None, label, applied: Vec::new(), served_at: None })
    }

    async fn embedded(place: &Place) -> Result<Self, StoreError> {
        let embedded = Embedded::start(options(place)).await?;
        let prepared = async {
            postgres::ensure_database(&embedded.config("postgres", "postgres"), DATABASE).await?;
            let applied = postgres::migrate(&embedded.config("postgres", DATABASE), domain::MIGRATIONS).await?;
            Ok((applied, folder_secret(embedded.data(), place.secret.as_deref())?))
        };
        match prepared.await {
            Ok((applied, secret)) => {
                let config = Config::new(embedded.config(SERVER_ROLE, DATABASE), secret);
                let label = embedded.data().display().to_string();
                Ok(Self { config, embedded: Some(embedded), label, applied, served_at: None })
            }
            Err(error) => {
                embedded.stop().await?;
                Err(error)
            }
        }
    }

    /// Notes in the folder where this program serves, for as long as the file is kept open; nothing
    /// with a given database.
    pub fn note_address(&self, address: SocketAddr) -> Result<Option<File>, StoreError> {
        let Some(embedded) = &self.embedded else { return Ok(None) };
        let path = embedded.data().join(ADDRESS_FILE);
        let noted = write_locked(&path, &address.to_string());
        noted.map(Some).map_err(|error| StoreError::AddressFile(path, error))
    }

    /// Ends when the embedded server is given up; never with a given database.
    pub async fn failed(&self) -> EmbeddedError {
        match &self.embedded {
            Some(embedded) => embedded.failed().await,
            None => std::future::pending().await,
        }
    }

    /// The embedded server's process, for tests that kill it.
    pub fn postmaster(&self) -> Option<u32> {
        self.embedded.as_ref().map(Embedded::pid)
    }

    pub async fn close(self) -> Result<(), StoreError> {
        if let Some(embedded) = self.embedded {
            embedded.stop().await?;
        }
        Ok(())
    }
}

/// Brings the place's database to this program's schema, and tells what was applied.
pub async fn migrate(place: &Place) -> Result<Vec<String>, StoreError> {
    match &place.database_url {
        Some(url) => Ok(postgres::migrate(&parse_url(url)?, domain::MIGRATIONS).await?),
        None => {
            // Opening an embedded place migrates it.
            let mut store = Store::embedded(place).await?;
            let applied = std::mem::take(&mut store.applied);
            store.close().await?;
            Ok(applied)
        }
    }
}

/// Writes a file and locks it until it is closed. Elsewhere first, so that whoever finds it
/// locked finds all of it.
fn write_locked(path: &Path, text: &str) -> io::Result<File> {
    let fresh = path.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A new one: the folder may be another user's, whose link must not lead root to another file.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.lock()?;
    file.write_all(text.as_bytes())?;
    fs::rename(&fresh, path)?;
    Ok(file)
}

/// Where the program that holds the folder serves, if it does. The note of one that was killed is
/// still there, but the kernel has let go of its lock.
fn served_at(data: &Path) -> Option<SocketAddr> {
    let mut file = File::open(data.join(ADDRESS_FILE)).ok()?;
    let Err(TryLockError::WouldBlock) = file.try_lock_shared() else { return None };
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn options(place: &Place) -> Options {
    Options { data: place.data.clone(), ..Options::default() }
}

fn parse_url(url: &str) -> Result<postgres::ConnectConfig, StoreError> {
    postgres::ConnectConfig::from_str(url).map_err(|error| StoreError::Url(error.to_string()))
}

fn strong(secret: &str) -> Result<Vec<u8>, StoreError> {
    if secret.chars().count() < SECRET_CHARS_MIN {
        return Err(StoreError::WeakSecret);
    }
    Ok(secret.as_bytes().to_vec())
}

/// The secret given, or the one kept in the data folder, made on first use.
fn folder_secret(data: &Path, given: Option<&str>) -> Result<Vec<u8>, StoreError> {
    if let Some(secret) = given {
        return strong(secret);
    }
    let path = data.join("secret");
    let failed = |error| StoreError::SecretFile(path.clone(), error);
    match fs::read_to_string(&path) {
        Ok(text) => strong(text.trim()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0u8; 32];
            getrandom::fill(&mut bytes).map_err(|error| failed(error.into()))?;
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            // Elsewhere first: a kill in the middle must not leave half a secret.
            let fresh = data.join("secret.new");
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).map_err(failed)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
            fs::rename(&fresh, &path).map_err(failed)?;
            Ok(text.into_bytes())
        }
        Err(error) => Err(failed(error)),
    }
}
