//! Finds the PostgreSQL programs on this machine.
//!
//! Owns the order of the places. Never installs anything: `bin/setup` does.

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::EmbeddedError;

/// One installed PostgreSQL server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// Holds `postgres`, `initdb` and, as a rule, `pg_dumpall` and `psql`.
    pub bin: PathBuf,
    pub major: u32,
}

/// The server to be used for a new folder: the first that `installed` names.
pub fn binaries() -> Result<Binaries, EmbeddedError> {
    installed()?.into_iter().next().ok_or(EmbeddedError::NoBinaries)
}

/// All servers found, best first. `TALLYHOLD_PG_BIN` is an order, not a hint: with it there is
/// no other, and a mistake in it is an error.
pub(super) fn installed() -> Result<Vec<Binaries>, EmbeddedError> {
    if let Some(bin) = env::var_os("TALLYHOLD_PG_BIN").filter(|value| !value.is_empty()) {
        let bin = PathBuf::from(bin);
        return match probe(&bin) {
            Ok(found) => Ok(vec![found]),
            Err(cause) => Err(EmbeddedError::BadBinaries { bin, cause }),
        };
    }
    let mut seen = HashSet::new();
    Ok(places()
        .into_iter()
        .filter_map(|bin| fs::canonicalize(bin).ok())
        .filter(|bin| seen.insert(bin.clone()))
        .filter_map(|bin| probe(&bin).ok())
        .collect())
}

fn places() -> Vec<PathBuf> {
    let pg_config = Command::new("pg_config").arg("--bindir").output().ok();
    let mut places: Vec<PathBuf> = pg_config
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|bindir| PathBuf::from(bindir.trim()))
        .into_iter()
        .collect();
    places.extend(versions("/usr/lib/postgresql", "", "bin"));
    places.extend(versions("/usr", "pgsql-", "bin"));
    places.extend(versions("/usr/libexec", "postgresql", ""));
    for homebrew in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        places.extend(versions(homebrew, "postgresql@", "bin"));
    }
    places.extend(versions("/Applications/Postgres.app/Contents/Versions", "", "bin"));
    // Fedora and Arch keep the server beside the other programs and ship no pg_config with it.
    places.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    places
}

/// `parent/<prefix><version>/<below>`, highest version first.
fn versions(parent: &str, prefix: &str, below: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_prefix(prefix)?.parse().ok()?, entry.path().join(below)))
        })
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, bin)| bin).collect()
}

fn probe(bin: &Path) -> Result<Binaries, String> {
    let postgres = bin.join("postgres");
    if !postgres.is_file() || !bin.join("initdb").is_file() {
        return Err("it holds no `postgres` and `initdb`".into());
    }
    let output = Command::new(&postgres)
        .arg("--version")
        .output()
        .map_err(|error| format!("its `postgres` cannot be run ({error})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let major = major(&text).ok_or_else(|| format!("its `postgres --version` says {text:?}"))?;
    Ok(Binaries { bin: bin.into(), major })
}

/// Of `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` and `… 18beta1`.
fn major(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn embedded_reads_the_major_version() {
        for (text, expected) in [
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta1\n", Some(18)),
            ("postgres (PostgreSQL) 9\n", Some(9)),
            ("EDB something 15\n", None),
        ] {
            assert_eq!(major(text), expected, "{text}");
        }
    }
}
