//! The embedded PostgreSQL against the real one: killed, orphaned, doubled, misplaced.
//!
//! Each test has a folder of its own, with a blank in its path. As root the server runs as
//! another user, so the folders are passable for all.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use engine::postgres::{
    embedded::{Cluster, Embedded, EmbeddedError, Lifetime, Options, binaries, path_key},
    ensure_database, migrate,
};
use rustix::process::{Pid, Signal, geteuid, getpgid, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_postgres::{Client, Config, NoTls, config::Host};

/// Set for the re-executed test binary: the folder its server shall hold.
const HOLD: &str = "TALLYHOLD_TEST_HOLD";

fn room() -> TempDir {
    tempfile::Builder::new().prefix("tallyhold embedded ").permissions(Permissions::from_mode(0o755)).tempdir().unwrap()
}

fn options(data: impl Into<PathBuf>) -> Options {
    // Many of these servers run at once.
    let settings = [("shared_buffers", "16MB"), ("max_connections", "20")];
    Options {
        data: data.into(),
        tcp_port: None,
        settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
    }
}

/// A client, and a future that ends with its connection.
async fn connect(server: &Embedded) -> (Client, tokio::task::JoinHandle<()>) {
    let (client, connection) = server.config("postgres", "postgres").connect(NoTls).await.unwrap();
    (client, tokio::spawn(async move { drop(connection.await) }))
}

async fn write_note(server: &Embedded) {
    let (client, _) = connect(server).await;
    client.batch_execute("CREATE TABLE note AS SELECT 'kept' AS text").await.unwrap();
}

async fn read_note(server: &Embedded) -> String {
    one(server, "SELECT text FROM note").await
}

async fn one(server: &Embedded, query: &str) -> String {
    connect(server).await.0.query_one(query, &[]).await.unwrap().get(0)
}

fn sockets(config: &Config) -> PathBuf {
    let Host::Unix(folder) = &config.get_hosts()[0] else { panic!("not a socket") };
    folder.clone()
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn refusal(options: Options) -> String {
    match Embedded::start(options).await {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn embedded_keeps_data_from_one_start_to_the_next() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    write_note(&server).await;
    let (sockets, pid) = (sockets(&server.config("a", "b")), server.pid());
    server.stop().await.unwrap();
    assert!(!Path::new("/proc").join(pid.to_string()).exists());
    assert!(!sockets.exists(), "{} is left", sockets.display());

    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    assert_eq!(read_note(&server).await, "kept");
    assert_eq!(names(server.data()), ["cluster", "lock", "server.log"]);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_is_private_and_durable_by_default() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    for (setting, expected) in [
        ("listen_addresses", ""),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        ("unix_socket_permissions", "0700"),
        ("max_connections", "20"),
    ] {
        assert_eq!(one(&server, &format!("SHOW {setting}")).await, expected, "{setting}");
    }
    assert_eq!(fs::metadata(server.data()).unwrap().mode() & 0o777, 0o700);
    let own_group = getpgid(None).unwrap();
    let group = getpgid(Pid::from_raw(server.pid().cast_signed())).unwrap();
    assert_ne!(group, own_group, "a Ctrl-C would reach it before the program");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_works_in_a_path_longer_than_a_socket_name() {
    let room = room();
    let data = room.path().join("long ".repeat(20)).join("path-".repeat(30)).join("ä/data");
    let server = Embedded::start(options(&data)).await.unwrap();
    assert_eq!(server.data(), data.canonicalize().unwrap());
    let psql = Command::new(binaries().unwrap().bin.join("psql"))
        .args(["-XAtc", "SELECT current_user", &server.url("postgres", "postgres")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(psql.stdout).unwrap().trim(), "postgres");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_asks_a_password_on_the_port_it_was_asked_to_open() {
    let room = room();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = Options { tcp_port: Some(port), ..options(room.path().join("data")) };
    let server = Embedded::start(options).await.unwrap();
    let (client, _) = connect(&server).await;
    client.batch_execute("ALTER ROLE postgres PASSWORD 'right'").await.unwrap();
    assert_eq!(one(&server, "SHOW listen_addresses").await, "127.0.0.1");
    for (password, accepted) in [("right", true), ("wrong", false)] {
        let mut tcp = tokio_postgres::Config::new();
        tcp.host("127.0.0.1").port(port).user("postgres").password(password);
        assert_eq!(tcp.connect(NoTls).await.is_ok(), accepted, "{password}");
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_refuses_a_second_program_and_names_the_holder() {
    let room = room();
    let data = room.path().join("data");
    let server = Embedded::start(options(&data)).await.unwrap();
    let message = refusal(options(&data)).await;
    let holder = format!("pid {}", std::process::id());
    assert!(message.contains(&holder), "{message}");
    assert!(message.contains(data.to_str().unwrap()), "{message}");
    server.ready().await.unwrap();
    server.stop().await.unwrap();
}

/// Here, because roles belong to a whole server, and the shared one has them.
#[tokio::test]
async fn roles_once() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    let (config, other) = (server.config("postgres", "postgres"), server.config("postgres", "other"));
    ensure_database(&config, "other").await.unwrap();
    // Another database is being migrated: it has made one of the roles, and not committed yet.
    let ((first, _), (observer, _)) = (connect(&server).await, connect(&server).await);
    first.batch_execute("BEGIN; CREATE ROLE tallyhold_server LOGIN").await.unwrap();
    let second = tokio::spawn(async move { migrate(&other, &[("V1__one", "SELECT 1")]).await });
    let waits = "SELECT FROM pg_stat_activity WHERE datname = 'other' AND wait_event_type = 'Lock'";
    while observer.query_opt(waits, &[]).await.unwrap().is_none() {}
    first.batch_execute("COMMIT").await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), ["V1__one"]);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_restarts_a_killed_server_and_keeps_data() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    write_note(&server).await;
    let killed = server.pid();
    let (_client, ended) = connect(&server).await;
    kill(killed);
    ended.await.unwrap();
    server.ready().await.unwrap();
    assert_eq!(read_note(&server).await, "kept");
    assert_ne!(server.pid(), killed);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_waits_for_the_backends_of_a_killed_server() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    let (client, _) = connect(&server).await;
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let backend = Pid::from_raw(backend).unwrap();
    kill_process(backend, Signal::STOP).unwrap();
    kill(server.pid());
    let log = server.data().join("server.log");
    // More often than it restarts a server that dies by itself.
    let waits = async {
        while fs::read_to_string(&log).unwrap().matches("still in use").count() < 7 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = waits => {}
        error = server.failed() => panic!("{error}"),
    }
    kill_process(backend, Signal::CONT).unwrap();
    server.ready().await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_gives_up_a_server_that_keeps_dying() {
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    for _ in 0..6 {
        server.ready().await.unwrap();
        let (_client, ended) = connect(&server).await;
        kill(server.pid());
        ended.await.unwrap();
    }
    let error = server.failed().await;
    assert!(error.to_string().contains("server.log"), "{error}");
    assert!(server.ready().await.is_err());
    server.stop().await.unwrap();
}

/// Not a test of its own: what `hold` runs.
#[tokio::test]
async fn embedded_child_holds_a_server() {
    let Some(data) = std::env::var_os(HOLD) else {
        return;
    };
    let server = Embedded::start(options(data)).await.unwrap();
    write_note(&server).await;
    println!("\nholding {}", server.pid());
    std::future::pending::<()>().await;
}

/// Another program that holds the folder's server, and the server's pid.
async fn hold(data: &Path) -> (tokio::process::Child, u32) {
    let mut program = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded_child_holds_a_server", "--nocapture"])
        .env(HOLD, data)
        .envs([("PGDATA", "/nonexistent"), ("PGPORT", "1")])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("it holds a server");
        if let Some(pid) = line.strip_prefix("holding ") {
            return (program, pid.parse().unwrap());
        }
    }
}

/// Ends the server of a killed program in order, or it would outlive its folder.
async fn take_over(data: &Path) {
    let server = Embedded::start(options(data)).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_starts_after_its_program_was_killed() {
    let room = room();
    let data = room.path().join("data");
    let (mut program, _) = hold(&data).await;
    let message = refusal(options(&data)).await;
    let holder = format!("pid {}", program.id().unwrap());
    assert!(message.contains(&holder), "{message}");
    program.kill().await.unwrap();

    let server = Embedded::start(options(&data)).await.unwrap();
    assert_eq!(read_note(&server).await, "kept");
    server.stop().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn embedded_server_ends_with_its_killed_program() {
    let room = room();
    let data = room.path().join("data");
    let (mut program, _) = hold(&data).await;
    let cluster = Cluster::open(options(&data)).unwrap();
    let config = cluster.config("postgres", "postgres");
    let (_client, connection) = config.connect(NoTls).await.unwrap();
    program.kill().await.unwrap();
    // The bound only turns a hang into a failure.
    let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
    assert!(ended.expect("the server lives on").is_err());
    take_over(&data).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn embedded_server_sees_none_of_our_postgres_variables() {
    let room = room();
    let data = room.path().join("data");
    let (mut program, pid) = hold(&data).await;
    let seen = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let names: Vec<_> = seen.split(|byte| *byte == 0).collect();
    assert!(names.iter().any(|name| name.starts_with(b"LC_ALL=")));
    // PGDATA of the server's own making is our folder, not theirs.
    for foreign in [&b"PGDATA=/nonexistent"[..], b"PGPORT=1"] {
        assert!(!names.contains(&foreign));
    }
    program.kill().await.unwrap();
    take_over(&data).await;
}

#[tokio::test]
async fn embedded_stops_an_orphaned_server_and_keeps_its_data() {
    let room = room();
    let data = room.path().join("data");
    let server = Embedded::start(options(&data)).await.unwrap();
    write_note(&server).await;
    server.stop().await.unwrap();
    let cluster = Cluster::open(options(&data)).unwrap();
    cluster.prepare().await.unwrap();
    let mut orphan = cluster.postmaster(Lifetime::Detached).unwrap().spawn().unwrap();
    while !cluster.answers().await {}

    let server = Embedded::start(options(&data)).await.unwrap();
    assert!(orphan.wait().unwrap().success(), "it was not shut down in order");
    assert_eq!(read_note(&server).await, "kept");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_starts_over_what_dead_programs_left() {
    let room = room();
    let data = room.path().join("data");
    Embedded::start(options(&data)).await.unwrap().stop().await.unwrap();
    let cluster = Cluster::open(options(&data)).unwrap();
    cluster.prepare().await.unwrap();
    // A lock nobody holds, and a pid that by now belongs to another program of the same user.
    let mut other = Command::new("cat");
    other.stdin(Stdio::piped());
    if geteuid().is_root() {
        other.uid(fs::metadata(data.join("cluster")).unwrap().uid());
    }
    let mut other = other.spawn().unwrap();
    let stale = format!("{}\n{}\n", other.id(), data.display());
    fs::write(data.join("lock"), "1").unwrap();
    fs::write(data.join("cluster/postmaster.pid"), &stale).unwrap();
    let sockets = sockets(&cluster.config("postgres", "postgres"));
    fs::write(sockets.join(".s.PGSQL.5432.lock"), &stale).unwrap();
    let server = Embedded::start(options(&data)).await.unwrap();
    assert_eq!(fs::read_to_string(data.join("lock")).unwrap(), std::process::id().to_string());
    assert!(other.try_wait().unwrap().is_none(), "it killed a stranger");
    server.stop().await.unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn embedded_creates_the_cluster_anew_after_an_interrupted_initdb() {
    let room = room();
    let data = room.path().join("data");
    fs::create_dir_all(data.join("initdb-1/base")).unwrap();
    fs::write(data.join("initdb-1/PG_VERSION"), "15").unwrap();
    let server = Embedded::start(options(&data)).await.unwrap();
    assert_eq!(names(&data), ["cluster", "lock", "server.log"]);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_refuses_another_major_version_and_names_the_way_out() {
    let room = room();
    let data = room.path().join("data");
    Embedded::start(options(&data)).await.unwrap().stop().await.unwrap();
    fs::write(data.join("cluster/PG_VERSION"), "9\n").unwrap();
    let message = refusal(options(&data)).await;
    let found = binaries().unwrap();
    for part in [
        "written by PostgreSQL 9,",
        &format!("PostgreSQL {} in {}", found.major, found.bin.display()),
        "TALLYHOLD_PG_BIN",
        "pg_dumpall",
    ] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
}

#[tokio::test]
async fn embedded_refuses_a_foreign_cluster() {
    let room = room();
    fs::write(room.path().join("PG_VERSION"), "15\n").unwrap();
    let message = refusal(options(room.path())).await;
    assert!(message.contains("itself a PostgreSQL cluster"), "{message}");
    assert_eq!(names(room.path()), ["PG_VERSION"]);
}

#[tokio::test]
async fn embedded_shows_the_servers_own_words_when_it_cannot_start() {
    let room = room();
    let mut options = options(room.path().join("data"));
    options.settings.push(("shared_buffers".into(), "much".into()));
    let error = Embedded::start(options).await.err().unwrap();
    assert!(matches!(error, EmbeddedError::Died { .. }), "{error}");
    assert!(error.to_string().contains("\"shared_buffers\": \"much\""), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn embedded_as_root_runs_the_server_as_another_user() {
    if !geteuid().is_root() {
        return;
    }
    let room = room();
    let server = Embedded::start(options(room.path().join("data"))).await.unwrap();
    let owner = fs::metadata(format!("/proc/{}", server.pid())).unwrap().uid();
    assert_ne!(owner, 0);
    assert_eq!(owner, fs::metadata(server.data().join("cluster")).unwrap().uid());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn embedded_as_root_leaves_a_folder_its_user_cannot_reach() {
    if !geteuid().is_root() {
        return;
    }
    let room = room();
    let closed = room.path().canonicalize().unwrap().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let used = Path::new("/var/lib/tallyhold").join(path_key(&closed.join("data")));

    let server = Embedded::start(options(closed.join("data"))).await.unwrap();
    assert_eq!(server.data(), used);
    write_note(&server).await;
    server.stop().await.unwrap();
    // Opened up later, the folder must not hide the data that was written meanwhile.
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    let server = Embedded::start(options(closed.join("data"))).await.unwrap();
    assert_eq!(read_note(&server).await, "kept");
    server.stop().await.unwrap();
    fs::remove_dir_all(used).unwrap();
}

#[tokio::test]
async fn embedded_dropped_without_a_stop_shuts_its_server_down() {
    let room = room();
    let data = room.path().join("data");
    let server = Embedded::start(options(&data)).await.unwrap();
    write_note(&server).await;
    drop(server);
    let cluster = Cluster::open(options(&data)).unwrap();
    // Held until the server has ended.
    cluster.lock_file().unwrap().lock().unwrap();
    assert!(!data.join("cluster/postmaster.pid").exists(), "it was not shut down in order");
}
