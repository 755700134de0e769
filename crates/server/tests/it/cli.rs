//! The command line: what it says, and what it leaves alone.

use crate::process::{Process, program};
use engine::postgres::embedded::{Embedded, Options, path_key};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};
use testkit::{
    App, Database,
    app::{PASSWORD, SECRET},
};

/// A folder that only we may enter. Where we are root, PostgreSQL's user may not, and the data asked
/// for in it goes elsewhere.
struct Folder {
    room: tempfile::TempDir,
    data: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let private = Permissions::from_mode(0o700);
        let room = tempfile::Builder::new().permissions(private).tempdir().expect("a folder");
        let data = room.path().join("data");
        Self { room, data }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(fallback(&self.data));
    }
}

fn run(data: &Path, arguments: &[&str]) -> Output {
    program().arg("--data").arg(data).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}

/// Where root's data goes when PostgreSQL's user cannot reach the folder asked for.
fn fallback(data: &Path) -> PathBuf {
    let parent = data.parent().and_then(|parent| parent.canonicalize().ok()).expect("it is there");
    Path::new("/var/lib/tallyhold").join(path_key(&parent.join(data.file_name().expect("a name"))))
}

#[test]
fn a_verb_about_what_is_there_refuses_a_folder_without_a_database_and_makes_none() {
    let folder = Folder::new();
    let (mistyped, empty) = (folder.data.clone(), folder.room.path().join("empty"));
    fs::create_dir(&empty).expect("the folder is ours");
    for verb in [
        "verify",
        "tenant list",
        "tenant create acme",
        "key list acme",
        "key create acme web",
        "key revoke acme key_01a22eb694627124a6908b53a67a034d",
        "role list acme",
        "role create acme Manager",
        "user list acme",
        "user invite acme mira@acme.example Mira --role Manager",
    ] {
        for data in [&mistyped, &empty] {
            let output = run(data, &verb.split(' ').collect::<Vec<_>>());
            let said = text(&output.stderr);
            let expected = format!(
                "tallyhold: there is no database in {}; `tallyhold serve` or `tallyhold migrate` makes one\n",
                data.display()
            );
            assert_eq!((output.status.code(), said), (Some(1), &*expected), "{verb}");
            assert!(output.stdout.is_empty(), "{verb}");
            assert!(!fallback(data).exists(), "{verb}");
        }
        assert!(!mistyped.exists() && fs::read_dir(&empty).expect("it is there").next().is_none(), "{verb}");
    }
}

#[test]
fn a_verb_about_what_is_there_finds_the_database_also_where_root_keeps_it() {
    let folder = Folder::new();
    let data = &folder.data;
    for (verb, printed) in [
        ("migrate", "applied"),
        ("tenant create acme", "ten_"),
        ("tenant list", "acme"),
        ("verify", "1 tenants: nothing is off"),
    ] {
        let output = run(data, &verb.split(' ').collect::<Vec<_>>());
        assert!(output.status.success() && text(&output.stdout).contains(printed), "{verb}: {output:?}");
    }
}

#[tokio::test]
async fn seed_prints_where_the_running_program_serves_and_no_address_once_it_was_killed() {
    let folder = Folder::new();
    let data = &folder.data;
    let process = Process::in_folder(data);
    let seeded = run(data, &["seed"]);
    assert!(text(&seeded.stdout).contains(&format!("curl -s {}/v1/stock/allocate", process.address)), "{seeded:?}");
    process.signal("-KILL");
    process.wait();
    // Nobody serves, then somebody holds the folder who does not.
    let nowhere = |seeded: &Output| {
        let printed = text(&seeded.stdout);
        assert!(seeded.status.success() && printed.contains("curl -s ADDRESS/v1/stock/allocate"), "{seeded:?}");
        assert!(!printed.contains("http://"), "{printed}");
    };
    nowhere(&run(data, &["seed"]));
    let held = Embedded::start(Options { data: data.clone(), ..Options::default() }).await.expect("it starts");
    assert!(held.data().join("address").exists(), "the killed program's note is still there");
    nowhere(&run(data, &["seed"]));
    held.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_database_server_killed_for_the_sixth_time_within_a_minute_ends_serve() {
    let folder = Folder::new();
    let data = &folder.data;
    let process = Process::in_folder(data);
    let used = if data.exists() { data.clone() } else { fallback(data) };
    let mut killed = String::new();
    for _ in 0..6 {
        killed = loop {
            let answers = reqwest::get(format!("{}/health/ready", process.address)).await.expect("the program lives");
            let noted = fs::read_to_string(used.join("cluster/postmaster.pid")).unwrap_or_default();
            let pid = noted.lines().next().unwrap_or_default();
            // The last line is the server's state.
            if answers.status() == 200 && pid != killed && noted.trim_end().ends_with("ready") {
                break pid.to_owned();
            }
        };
        crate::process::signal(killed.parse().expect("a number"), "-KILL");
    }
    let (good, log) = process.wait();
    assert!(!good && log.contains("the embedded PostgreSQL was given up"), "{log}");
}

#[tokio::test]
async fn ten_04_whoever_runs_the_server_lets_the_first_user_in() {
    let app = App::start().await;
    let run = |arguments: &[&str]| {
        let mut command = program();
        command.env("DATABASE_URL", app.database.server_url()).env("TALLYHOLD_SECRET", SECRET);
        command.args(arguments).output().expect("it runs")
    };
    let invite = ["user", "invite", "kestrel", "mira@kestrel.example", "Mira Okafor", "--role", "manager"];
    let refused = run(&invite);
    assert!(text(&refused.stderr).contains("`tallyhold role create kestrel manager` makes it"), "{refused:?}");
    let role = run(&["role", "create", "kestrel", "Manager"]);
    assert!(role.status.success() && text(&role.stdout).starts_with("rol_"), "{role:?}");
    let invited = run(&invite);
    let token = text(&invited.stdout).trim();
    assert!(invited.status.success() && token.starts_with("tht_"), "{invited:?}");
    app.set_password(&token.into(), PASSWORD).await.ok();
    let again = run(&invite);
    assert!(text(&again.stderr).contains("has the address mira@kestrel.example already"), "{again:?}");
    let users = run(&["user", "list", "kestrel"]);
    assert!(text(&users.stdout).contains("  active  mira@kestrel.example  Mira Okafor  rol_"), "{users:?}");
    let roles = run(&["role", "list", "kestrel"]);
    assert!(text(&roles.stdout).contains("  1 users  Manager  "), "{roles:?}");
    app.finish().await;
}

#[tokio::test]
async fn a_slug_that_is_taken_is_refused_in_the_documented_words() {
    let database = Database::new().await;
    let create = || {
        let mut command = program();
        command.env("DATABASE_URL", database.server_url()).env("TALLYHOLD_SECRET", SECRET);
        command.args(["tenant", "create", "acme"]).output().expect("it runs")
    };
    let (first, second) = (create(), create());
    let tenant = text(&first.stdout).trim();
    assert!(first.status.success() && tenant.starts_with("ten_"), "{first:?}");
    let said = text(&second.stderr).trim().strip_prefix("tallyhold: ").expect("it says who speaks");
    assert_eq!((second.status.code(), text(&second.stdout)), (Some(1), ""), "{said}");
    let documented = format!("`{}`, and exits with 1", said.replace(tenant, "ten_…"));
    let row =
        include_str!("../../../../docs/reference/errors.md").lines().find(|line| line.contains("| `slug_taken` |"));
    assert!(row.expect("the code's row").contains(&documented), "{documented}");
}

#[test]
fn help_promises_what_is_there() {
    let help = program().arg("--help").output().expect("it runs");
    let first = text(&help.stdout).lines().next().expect("a line");
    assert_eq!(first, "The system of record for a company's stock: what is there, and what of it is promised.");
}
