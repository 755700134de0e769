//! A TCP proxy to PostgreSQL that cuts the connection where a test says.
//!
//! It forwards bytes untouched and watches the client's messages for a text; when the text has
//! gone to the server and the server has answered it, the answer is thrown away and both ends are
//! closed. That is how an answer to COMMIT is lost.

use engine::postgres::{ConnectConfig, Host};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
};

/// A proxy in front of a database.
pub struct Proxy {
    port: u16,
    cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// Forwards to the socket of `config`; once armed, cuts after the server answered a client
    /// message that holds `text`.
    pub async fn start(config: &ConnectConfig, text: &'static str) -> Self {
        let Some(Host::Unix(folder)) = config.get_hosts().first().cloned() else {
            panic!("the test server listens on a Unix socket");
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let socket = folder.join(format!(".s.PGSQL.{port}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let cuts = Arc::new(AtomicUsize::new(0));
        let left = cuts.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, socket.clone(), text, left.clone()));
            }
        });
        Self { port, cuts }
    }

    /// The next `count` answers to such messages are lost.
    pub fn cut_next(&self, count: usize) {
        self.cuts.store(count, Ordering::SeqCst);
    }

    /// How many cuts are still to come.
    pub fn cuts_left(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }

    /// The way to the database through the proxy.
    pub fn config(&self, behind: &ConnectConfig) -> ConnectConfig {
        let mut config = ConnectConfig::new();
        config.host("127.0.0.1").port(self.port);
        config.user(behind.get_user().expect("a user")).dbname(behind.get_dbname().expect("a database"));
        config
    }
}

async fn forward(mut client: TcpStream, socket: PathBuf, text: &'static str, cuts: Arc<AtomicUsize>) {
    let Ok(mut server) = UnixStream::connect(socket).await else { return };
    let (mut up, mut down) = (vec![0u8; 65_536], vec![0u8; 65_536]);
    let mut armed = false;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(bytes @ 1..) = read else { return };
                let holds = up[..bytes].windows(text.len()).any(|window| window == text.as_bytes());
                armed |= holds && cuts.load(Ordering::SeqCst) > 0;
                if server.write_all(&up[..bytes]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(bytes @ 1..) = read else { return };
                // "C" + length + "COMMIT": the server has committed.
                if armed && down[..bytes].windows(7).any(|window| window == b"COMMIT\0") {
                    cuts.fetch_sub(1, Ordering::SeqCst);
                    return;
                }
                if client.write_all(&down[..bytes]).await.is_err() {
                    return;
                }
            }
        }
    }
}
