//! Where the data lies and which user it belongs to.
//!
//! Owns the choice of folder and user, above all for root: PostgreSQL refuses to run as root.
//! Invariant: existing data is never passed over for a new, empty folder.
//! Never takes over or opens up a folder that holds something.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, lchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::EmbeddedError;
use rustix::process::geteuid;

/// Where the data goes when we are root and PostgreSQL's user cannot reach the folder asked for.
const ROOT_FALLBACK: &str = "/var/lib/tallyhold";

/// The user PostgreSQL runs as when we are root.
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// `postgres`, else `nobody`.
    fn usual() -> Result<Self, EmbeddedError> {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|wanted| {
                users.lines().find_map(|line| {
                    let mut fields = line.split(':');
                    let name = fields.next().filter(|name| *name == wanted)?;
                    let (uid, gid) = (fields.nth(1)?, fields.next()?);
                    Some(Self { name: name.into(), uid: id(uid)?, gid: id(gid)? })
                })
            })
            .ok_or(EmbeddedError::NoAccount)
    }

    /// Whoever owns a cluster keeps running it: an ordinary user's folder stays his.
    fn owner(cluster: &Path) -> Option<Self> {
        let owner = fs::metadata(cluster).ok().filter(|owner| owner.uid() != 0)?;
        Some(Self { name: format!("with uid {}", owner.uid()), uid: owner.uid(), gid: owner.gid() })
    }

    /// Tried, not computed: modes, ACLs, mounts and containers all have their say.
    pub(super) fn reaches(&self, folder: &Path) -> bool {
        // The child changes its folder after its user.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ":"]).uid(self.uid).gid(self.gid).current_dir(folder);
        command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Of a link, the link itself: others may have put it there.
    pub(super) fn own(account: Option<&Self>, path: &Path) -> io::Result<()> {
        account.map_or(Ok(()), |account| lchown(path, Some(account.uid), Some(account.gid)))
    }
}

/// macOS writes nobody's as -2.
fn id(field: &str) -> Option<u32> {
    field.parse::<i64>().ok().and_then(|id| u32::try_from(id).ok())
}

/// The folder and the user for it. Data that is already there decides: a folder that became
/// reachable later must not hide what was written to the fallback.
pub(super) fn place_as_root(asked: PathBuf) -> Result<(PathBuf, Account), EmbeddedError> {
    let fallback = Path::new(ROOT_FALLBACK).join(path_key(&asked));
    if let Some(account) = Account::owner(&asked.join("cluster")) {
        return Ok((asked, account));
    }
    let existing = Account::owner(&fallback.join("cluster"));
    if existing.is_none() {
        let account = Account::usual()?;
        let parent = existing_ancestor(asked.parent().unwrap_or(&asked));
        let usable = !asked.exists() || is_empty(&asked) || account.reaches(&asked);
        if usable && account.reaches(parent) {
            return Ok((asked, account));
        }
    }
    let account = existing.map_or_else(Account::usual, Ok)?;
    tracing::warn!(asked = %asked.display(), used = %fallback.display(),
        "PostgreSQL must not run as root, and its user cannot reach the data folder: using another");
    // Passable for the server's user whatever our umask.
    fs::create_dir_all(ROOT_FALLBACK)
        .and_then(|()| fs::set_permissions(ROOT_FALLBACK, Permissions::from_mode(0o711)))
        .map_err(|source| EmbeddedError::io("make", Path::new(ROOT_FALLBACK), source))?;
    Ok((fallback, account))
}

/// Whether there is a cluster in the folder, or where root's goes instead. Makes nothing; what cannot
/// be looked at is not missing, and opening it tells why.
pub fn holds_cluster(data: &Path) -> bool {
    let is_there = |folder: &Path| folder.join("cluster").try_exists().unwrap_or(true);
    let fallback = |asked: PathBuf| is_there(&Path::new(ROOT_FALLBACK).join(path_key(&asked)));
    is_there(data) || (geteuid().is_root() && resolve(data).is_ok_and(fallback))
}

/// Makes a folder; one that is new or empty becomes private and the server's user's.
pub(super) fn make_folder(folder: &Path, account: Option<&Account>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if is_empty(folder) {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        Account::own(account, folder)?;
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Absolute and without symbolic links, as far as it exists: one folder, one name.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, EmbeddedError> {
    let io = |source| EmbeddedError::io("use the folder", path, source);
    let absolute = std::path::absolute(path).map_err(io)?;
    let existing = existing_ancestor(&absolute);
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    let real = fs::canonicalize(existing).map_err(io)?;
    Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

fn existing_ancestor(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"))
}

/// A short, stable name for a path (FNV-1a: the standard library's hashes may change).
pub fn path_key(path: &Path) -> String {
    let hash =
        path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{hash:016x}")
}
