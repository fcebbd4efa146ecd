//! Measurements of a hub over loopback: clients that submit, clients that query, and two nodes between which the hub has files moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hubapi::Api;
use model::id::Uuid;
use model::v1::hub::{Endpoint, FileOrder, JobOrder};
use web::api_client::ApiClient;
use web::{Client, Headers, HttpUrl, Method};

use crate::node::{Node, dialer, grant};
use crate::statistics::median;

/// Clients that submit at the same time.
pub const CLIENTS: usize = 4;
/// The interval at which a job is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest that a job may take.
const JOB_MAX: Duration = Duration::from_secs(1800);

/// A running hub, and a key to it.
pub struct Hub {
    process: Node,
    longhaul: PathBuf,
    dir: PathBuf,
    origin: String,
    key: String,
}

impl Hub {
    /// Starts a hub with its state below a directory.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(longhaul: &Path, dir: &Path) -> Result<Hub> {
        let state = dir.join("hub");
        let mut grant = Command::new(longhaul);
        grant.args(["hub", "grant", "--role", "admin", "--name", "bench", "--state"]).arg(&state);
        let output = grant.output()?;
        let text = String::from_utf8(output.stdout)?;
        let key = text.lines().last().context("no key was made")?.to_owned();
        let process = serve(longhaul, dir)?;
        let origin = format!("http://127.0.0.1:{}/", process.port);
        Ok(Hub { origin, process, longhaul: longhaul.to_owned(), dir: dir.to_owned(), key })
    }

    /// Kills it, and starts it again on the same state.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(self) -> Result<Hub> {
        let Hub { process, longhaul, dir, key, .. } = self;
        drop(process);
        let process = serve(&longhaul, &dir)?;
        Ok(Hub { origin: format!("http://127.0.0.1:{}/", process.port), process, longhaul, dir, key })
    }

    /// A client of its API.
    ///
    /// # Errors
    /// The TLS library has no usable protocol version.
    pub fn api(&self) -> Result<Api> {
        let bearer = format!("Bearer {}", self.key);
        Ok(Api::new(dialer()?, HttpUrl::parse(&self.origin)?, Some(&bearer)))
    }

    /// A client for requests to its API that [`Api`] has no method for.
    ///
    /// # Errors
    /// The TLS library has no usable protocol version.
    pub fn client(&self) -> Result<ApiClient> {
        let bearer = format!("Bearer {}", self.key);
        Ok(ApiClient::new("hub", dialer()?, HttpUrl::parse(&self.origin)?, Some(&bearer)))
    }

    /// Processor time that it has used so far, seconds.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn processor_s(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        // The fields after the name, which may hold any character: proc_pid_stat(5), fields 14 and 15.
        let fields = stat.rsplit_once(") ").context("no stat")?.1;
        let ticks: u64 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap_or(0)).sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Resident memory, bytes.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? << 10)
    }
}

fn serve(longhaul: &Path, dir: &Path) -> Result<Node> {
    let mut command = Command::new(longhaul);
    command.args(["hub", "serve", "--plain", "--quiet", "--listen", "127.0.0.1:0", "--state"]).arg(dir.join("hub"));
    command.stderr(fs::File::create(dir.join("hub.log"))?);
    Node::start(&mut command)
}

/// A job of `files` files between two hosts that cannot be reached.
fn order(files: usize) -> JobOrder {
    let id = Uuid::now_v7();
    let file = |at: usize| FileOrder {
        sources: vec![format!("lh://source.example/data/run7/{id}/{at:06}.h5")],
        target: format!("lh://target.example/data/in/run7/{id}/{at:06}.h5"),
        bytes: Some(1_000_000_000),
        ..FileOrder::default()
    };
    JobOrder { id: Some(id), files: (0..files).map(file).collect(), ..JobOrder::default() }
}

/// Submits jobs of `files` files from [`CLIENTS`] clients at once, each over one connection; returns the accepted jobs per second.
///
/// # Errors
/// A job was not accepted.
pub fn submit(hub: &Hub, files: usize, seconds: u64) -> Result<f64> {
    let accepted = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let client = || -> Result<()> {
        let mut client = Client::new(&dialer()?, &HttpUrl::parse(&hub.origin)?)?;
        let headers = Headers::new().with("Authorization", format!("Bearer {}", hub.key));
        let headers = headers.with("Content-Type", "application/json");
        while !stop.load(Ordering::Relaxed) {
            let body = serde_json::to_vec(&order(files))?;
            client.send(
                &Method::Post,
                "/api/v1/jobs",
                &headers.clone().with("Content-Length", body.len().to_string()),
            )?;
            client.write(&body)?;
            let (response, mut body) = client.final_response(&Method::Post)?;
            let answer = client.read_all(&mut body, 1 << 20)?;
            ensure!(response.status == 201, "{}: {}", response.status, String::from_utf8_lossy(&answer));
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a thread that submits jobs panicked"))?)
    })?;
    Ok(accepted.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

/// Repeats a request over one connection; returns the milliseconds until each answer, sorted.
///
/// # Errors
/// A request is not answered.
pub fn time_requests(hub: &Hub, target: &str, times: u32) -> Result<Vec<f64>> {
    let mut client = Client::new(&dialer()?, &HttpUrl::parse(&hub.origin)?)?;
    let headers = Headers::new().with("Authorization", format!("Bearer {}", hub.key));
    let mut all = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        client.send(&Method::Get, target, &headers)?;
        let (response, mut body) = client.final_response(&Method::Get)?;
        client.read_all(&mut body, 64 << 20)?;
        ensure!(response.status == 200, "the hub answers {}", response.status);
        all.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// The 99th percentile of sorted values.
pub fn percentile_99(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
}

/// Two nodes that a hub knows.
pub struct Pair {
    nodes: Vec<Node>,
    /// Their URLs, keys and data, source first.
    pub sites: Vec<Site>,
}

/// One of the two nodes.
pub struct Site {
    /// `lh://HOST:PORT`.
    pub url: String,
    /// A key to it.
    pub key: String,
    /// Its export `data`.
    pub data: PathBuf,
}

impl Pair {
    /// Starts two nodes, and adds them to a hub as endpoints.
    ///
    /// # Errors
    /// A node does not start, or the hub refuses it.
    pub fn start(hub: &Hub, dir: &Path) -> Result<Pair> {
        let mut pair = Pair { nodes: Vec::new(), sites: Vec::new() };
        for name in ["a", "b"] {
            let state = dir.join(name).join("state");
            let data = dir.join(name).join("data");
            fs::create_dir_all(&data)?;
            let key = grant(&hub.longhaul, &state, &["--export", "data", "--write"])?;
            let mut command = Command::new(&hub.longhaul);
            command.args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--state"]).arg(&state);
            command.arg("--export").arg(format!("data={}:rw", data.display()));
            let node = Node::start(command.stderr(fs::File::create(dir.join(name).join("log"))?))?;
            let url = format!("lh://127.0.0.1:{}", node.port);
            let endpoint = Endpoint { urls: vec![url.clone()], key: Some(key.clone()), ..Endpoint::default() };
            hub.api()?.put(name, &endpoint)?;
            pair.nodes.push(node);
            pair.sites.push(Site { url, key, data });
        }
        Ok(pair)
    }

    /// The order to move a file from the source to the target; both paths are below the export.
    pub fn file(&self, from: &str, to: &str, bytes: u64) -> FileOrder {
        FileOrder {
            sources: vec![format!("{}/data/{from}", self.sites[0].url)],
            target: format!("{}/data/{to}", self.sites[1].url),
            bytes: Some(bytes),
            ..FileOrder::default()
        }
    }

    /// Has the hub move files, `in_job` of them in each job; returns the time until the last job ended.
    ///
    /// # Errors
    /// The hub refuses a job, or not all files arrive in time.
    pub fn time_moves(&self, hub: &Hub, files: &[FileOrder], in_job: usize) -> Result<Duration> {
        let api = hub.api()?;
        let began = Instant::now();
        let mut jobs = Vec::new();
        for files in files.chunks(in_job) {
            let order = JobOrder { id: Some(Uuid::now_v7()), files: files.to_vec(), ..JobOrder::default() };
            jobs.push((api.submit(&order)?.0.id.to_string(), files.len() as u64));
        }
        for (job, files) in jobs {
            loop {
                let job = api.job(&job)?;
                if job.ended.is_some() {
                    ensure!(job.done == files, "{} of {files} files arrived", job.done);
                    break;
                }
                ensure!(began.elapsed() < JOB_MAX, "the job does not end: {job:?}");
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(began.elapsed())
    }
}

/// Makes small files at the source of a pair, 1,000 bytes each; returns the orders for them.
///
/// # Errors
/// They cannot be written.
pub fn small_files(pair: &Pair, files: usize) -> Result<Vec<FileOrder>> {
    let name = |at: usize| format!("{:03x}/f{at}", at % 1024);
    for directory in 0..1024.min(files) {
        fs::create_dir_all(pair.sites[0].data.join(format!("{directory:03x}")))?;
    }
    for at in 0..files {
        fs::write(pair.sites[0].data.join(name(at)), [7; 1000])?;
    }
    Ok((0..files).map(|at| pair.file(&name(at), &format!("in/{}", name(at)), 1000)).collect())
}

/// The median, the least and the largest of some values, as text.
pub fn spread_text(all: &[f64], digits: usize) -> String {
    let extreme = |pick: fn(f64, f64) -> f64, start| all.iter().copied().fold(start, pick);
    let middle = median(all.iter().copied()).unwrap_or_default();
    format!("{middle:.digits$} ({:.digits$} to {:.digits$})", extreme(f64::min, f64::INFINITY), extreme(f64::max, 0.0))
}
