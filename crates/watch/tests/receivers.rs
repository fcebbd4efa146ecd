//! Tests with real servers: the archive on PostgreSQL, and Prometheus as a receiver.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "../../hub/tests/servers/postgres.rs"]
#[allow(dead_code, reason = "shared with the tests of the hub, which start it again")]
mod postgres;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::{MISSING, Postgres};
use tokio::runtime::Runtime;
use watch::archive::columns::LATENCY;
use watch::archive::store::{Archive, NewRow, SeriesKey};
use watch::archive::{DAY, Level, Row};
use watch::remote_write::RemoteWrite;
use web::{Dialer, Headers, HttpUrl, Method};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

fn key() -> SeriesKey {
    SeriesKey { from: "a".into(), to: "b".into(), test: "latency".into() }
}

fn row(at: i64, sent: i64) -> Row {
    let mut values = vec![None; LATENCY.len()];
    values[1] = Some(sent);
    Row { at, values }
}

#[test]
fn the_archive_is_the_same_on_postgresql() {
    let Some(server) = Postgres::start() else {
        return skipped("the_archive_is_the_same_on_postgresql", MISSING);
    };
    let url = server.database("watch");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let archive = Archive::open(&url).await.unwrap();
        let series = archive.series(&key()).await.unwrap();
        assert_eq!(archive.series(&key()).await.unwrap(), series);
        let begin = 20_000 * DAY - HOUR;
        let new = |minute: i64| NewRow {
            series,
            row: row(begin + minute * MINUTE, 600),
            columns: LATENCY,
            report: Some("{}".into()),
        };
        let rows: Vec<NewRow> = (0..120).map(new).collect();
        archive.append(&rows, Some(("a", 120))).await.unwrap();
        archive.append(&rows[..3], Some(("a", 121))).await.unwrap();
        let view = |archive: Archive| async move {
            let minutes = archive.rows(&key(), Level::Minutes, begin, begin + 2 * HOUR).await.unwrap();
            let hours = archive.rows(&key(), Level::Hours, begin, begin + 2 * HOUR).await.unwrap();
            (minutes.len(), hours.iter().map(|row| row.values[1]).collect::<Vec<_>>())
        };
        let before = view(archive.clone()).await;
        assert_eq!(before, (120, vec![Some(36_000), Some(36_000)]));
        assert_eq!(archive.pack(begin + 2 * HOUR).await.unwrap(), 120);
        assert_eq!(view(archive.clone()).await, before);
        assert_eq!(
            (archive.cursor("a").await.unwrap(), archive.report(series, begin + HOUR).await.unwrap()),
            (121, Some("{}".into()))
        );
    });
}

/// A port for a server that binds it later, below the ephemeral ports of the kernel.
fn free_port(is_free: impl Fn(u16) -> bool) -> u16 {
    std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).find(|port| is_free(*port)).unwrap()
}

/// A Prometheus that accepts remote-write.
struct Prometheus {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    fn start() -> Option<Prometheus> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("prometheus.yml"), "global: {}\n").unwrap();
        let port = free_port(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        let at = format!("127.0.0.1:{port}");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", dir.path().join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()));
        command.args(["--web.enable-remote-write-receiver", &format!("--web.listen-address={at}")]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Prometheus { child, url: format!("http://{at}"), _dir: dir })
    }

    /// The answer to a request, as text.
    fn ask(&self, target: &str) -> Option<String> {
        let url = HttpUrl::parse(&format!("{}{target}", self.url)).unwrap();
        let answer = web::client::fetch(&dialer(), &Method::Get, &url, &Headers::new()).ok()?;
        let web::client::FinalResponse { mut client, mut body, .. } = answer;
        let text = client.read_all(&mut body, 1 << 20).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dialer() -> Dialer {
    let tls = auth::client_certificate::http_client_config(Arc::new(rustls::RootCertStore::empty()), None).unwrap();
    watch::notify::dialer(tls)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn prometheus_receives_measurements() {
    let Some(prometheus) = Prometheus::start() else {
        return skipped("prometheus_receives_measurements", "there is no prometheus (scripts/setup.sh installs it)");
    };
    until("Prometheus is ready", || prometheus.ask("/-/ready").filter(|text| text.contains("Ready")));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let mut to = RemoteWrite::new(&format!("{}/api/v1/write", prometheus.url), dialer());
    (0..3).for_each(|minute| to.push(key(), row(now - (3 - minute) * 5_000, 600 + minute)));
    to.send();
    let found = until("the samples are stored", || {
        let text = prometheus.ask("/api/v1/query?query=longhaul_watch_sent")?;
        text.contains("\"602\"").then_some(text)
    });
    for part in ["\"source\":\"a\"", "\"target\":\"b\"", "\"test\":\"latency\""] {
        assert!(found.contains(part), "{found}");
    }
}
