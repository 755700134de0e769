//! The real program as a process of its own.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};
use testkit::{Database, Reply, app::SECRET};

pub struct Process {
    child: Child,
    pub address: String,
    http: reqwest::Client,
    /// Read as it comes: a full pipe would stop the program in the midst of a line.
    log: Option<JoinHandle<String>>,
}

/// The program with nothing of the test's own environment.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyhold"));
    for name in ["DATABASE_URL", "TALLYHOLD_DATA", "TALLYHOLD_SECRET", "TALLYHOLD_LISTEN", "TALLYHOLD_GATE", "RUST_LOG"]
    {
        command.env_remove(name);
    }
    command
}

impl Process {
    /// Serves over the database of a test; killed or stopped at `gate` where one is given.
    pub fn over(database: &Database, gate: Option<&str>) -> Self {
        let mut command = program();
        command.env("DATABASE_URL", database.server_url()).env("TALLYHOLD_SECRET", SECRET);
        if let Some(gate) = gate {
            command.env("TALLYHOLD_GATE", gate);
        }
        Self::start(command)
    }

    /// Serves over an embedded PostgreSQL in this folder.
    pub fn in_folder(data: &Path) -> Self {
        let mut command = program();
        command.arg("--data").arg(data);
        Self::start(command)
    }

    pub fn start(mut command: Command) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = child.stderr.take().expect("its log");
        let log = Some(thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).expect("its log is text");
            log
        }));
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its output");
        // Nothing where it was killed before it served.
        BufReader::new(stdout).read_line(&mut line).expect("its output is readable");
        let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or("").to_owned();
        Self { child, address, http: reqwest::Client::new(), log }
    }

    /// The answer, or nothing where the process died first.
    pub async fn post(&self, token: &str, path: &str, key: &str, body: &Value) -> Option<Reply> {
        let request = self.http.post(format!("{}{path}", self.address)).bearer_auth(token);
        Self::send(request.header("idempotency-key", key).header("x-correlation-id", key).json(body)).await
    }

    async fn send(request: reqwest::RequestBuilder) -> Option<Reply> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Reply { status, headers, bytes: response.bytes().await.ok()?.to_vec() })
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for its end; whether it was a good one, and what it logged.
    pub fn wait(mut self) -> (bool, String) {
        let good = self.child.wait().expect("it ends").success();
        let log = self.log.take().expect("it is waited for once").join();
        (good, log.expect("its log is text"))
    }
}

pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs").success());
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
