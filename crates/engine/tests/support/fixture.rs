//! A node and a client in one process, with a directory for each, over real sockets.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{AccessKey, Grants};
use engine::dial::AdvertisedAddresses;
use engine::journal::Journals;
use engine::receive::Policy;
use engine::session::{Connect, Report, Session, SessionParts};
use engine::{Timeouts, Trust};
use model::locator::NodePlace;
use model::name::RelPath;
use model::spec::{LiveSettings, Options};
use model::{Algorithm, HostPort};
use store::posix::{Links, Posix};
use wire::frame::{Direction, Open};
use wire::liveness::Pace;
use wire::receiver::Target;

use super::job::TestTransfer;
use super::open_node::OpenNode;

/// A node, a directory for each end, and the timeouts of both.
pub struct NodeFixture {
    open_node: OpenNode,
    timeouts: Timeouts,
}

/// Timeouts with this pace, and a handshake that may take four seconds.
pub fn patient(pace: Pace) -> Timeouts {
    Timeouts { pace, handshake: Duration::from_secs(4), ..Timeouts::default() }
}

pub fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

/// Bytes from a seed. One block is computed and copied, each copy with its own number in front: the tests are compiled without
/// optimisation.
fn content(len: usize, seed: u64) -> Vec<u8> {
    const BLOCK: usize = 4096;
    let mut state = (seed << 1) | 1;
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    let mut bytes = Vec::with_capacity(len + BLOCK);
    while bytes.len() < len {
        let at = bytes.len();
        let number = state.wrapping_add(at as u64);
        bytes.extend_from_slice(&block);
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl NodeFixture {
    /// A fixture whose timeouts are long enough for a busy machine.
    pub fn new() -> NodeFixture {
        let pace = Pace { ping_after: Duration::from_millis(500), gone_after: Duration::from_secs(15) };
        NodeFixture::with(Timeouts { handshake: Duration::from_secs(15), ..patient(pace) }, Grants::default())
    }

    pub fn with_pace(pace: Pace) -> NodeFixture {
        NodeFixture::with(patient(pace), Grants::default())
    }

    /// A fixture whose node accepts these grants, beside anonymous clients.
    pub fn with(timeouts: Timeouts, grants: Grants) -> NodeFixture {
        let open_node = OpenNode::start_with("far", |config| {
            config.grants = grants;
            config.timeouts = timeouts;
        });
        fs::create_dir(open_node.path("near")).unwrap();
        NodeFixture { open_node, timeouts }
    }

    pub fn node(&self) -> SocketAddr {
        self.open_node.address
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.open_node.path(name)
    }

    pub fn write(&self, name: &str, len: usize, seed: u64) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(len, seed)).unwrap();
    }

    pub fn connect(&self, to: SocketAddr, plain: bool) -> engine::Result<Session> {
        self.connect_with(to, plain, &[])
    }

    pub fn connect_with(&self, to: SocketAddr, plain: bool, keys: &[AccessKey]) -> engine::Result<Session> {
        let to = HostPort { host: to.ip().to_string(), port: to.port() };
        let session = engine::identity::random().unwrap();
        let trust = Trust::Fingerprints(Vec::new());
        Session::connect(
            &to,
            &Connect {
                trust,
                keys,
                plain,
                timeouts: self.timeouts,
                session,
                guard: None,
                advertised_addresses: AdvertisedAddresses::default(),
            },
        )
    }

    pub fn order(direction: Direction, path: &str) -> Open {
        let job = engine::identity::random().unwrap();
        let place = NodePlace::Path { export: "far".into(), path: rel(path) };
        let options = Options { recursive: true, checksums: vec![Algorithm::Crc32c], ..Options::default() };
        Open {
            job,
            direction,
            places: vec![place],
            options,
            congestion: None,
            steer: LiveSettings::default(),
            listed: false,
        }
    }

    pub fn near(&self, links: Links) -> Arc<Posix> {
        Arc::new(Posix::open(self.open_node.dir(), links).unwrap())
    }

    pub fn push_on(&self, session: &mut Session, from: &str, to: &str) -> Report {
        let order = Self::order(Direction::Push, to);
        TestTransfer::new(order, three_streams()).push(session, self.near(Links::Inside), from)
    }

    pub fn push(&self, node: SocketAddr, from: &str, to: &str, plain: bool) -> engine::Result<Report> {
        let mut session = self.connect(node, plain)?;
        let report = self.push_on(&mut session, from, to);
        session.close();
        Ok(report)
    }

    pub fn pull(&self, node: SocketAddr, from: &str, to: &str, plain: bool) -> engine::Result<Report> {
        let mut session = self.connect(node, plain)?;
        let order = Self::order(Direction::Pull, from);
        let policy = self.policy(&order.options);
        let report = TestTransfer::new(order, three_streams()).pull(
            &mut session,
            self.near(Links::Refuse),
            self.target(to),
            policy,
        );
        session.close();
        Ok(report)
    }

    /// Copies `name` over `address`, from the far end to the near end or back, under the same name.
    pub fn copy(&self, address: SocketAddr, pull: bool, name: &str) -> Report {
        let near = format!("near/{name}");
        if pull {
            self.pull(address, name, &near, false).unwrap()
        } else {
            self.push(address, &near, name, false).unwrap()
        }
    }

    /// How the near end receives with these options: it keeps journals, as a client does.
    pub fn policy(&self, options: &Options) -> Policy {
        Policy {
            options: options.clone(),
            may_replace: Ok(()),
            tag: "near".into(),
            journals: Some(Journals::new(&self.path("near-state"), self.open_node.dir())),
            reports_plans: false,
        }
    }

    /// The near end's target: this very path.
    pub fn target(&self, to: &str) -> Target {
        Target { path: rel(to), into: false, is_dir: self.path(to).is_dir() }
    }

    pub fn walk(&self, at: &Path, out: &mut BTreeMap<PathBuf, Vec<u8>>, root: &Path) {
        if at.is_dir() {
            for entry in fs::read_dir(at).unwrap() {
                self.walk(&entry.unwrap().path(), out, root);
            }
        } else {
            match fs::read(at) {
                Ok(bytes) => drop(out.insert(at.strip_prefix(root).unwrap().to_owned(), bytes)),
                // An unfinished file was removed meanwhile, or a link points to a file that has not arrived yet.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => panic!("{}: {error}", at.display()),
            }
        }
    }

    #[track_caller]
    pub fn assert_same(&self, left: &str, right: &str) {
        let mut trees = [left, right].map(|name| {
            let root = self.path(name);
            let mut out = BTreeMap::new();
            self.walk(&root, &mut out, &root);
            out
        });
        assert!(!trees[0].is_empty());
        assert_eq!(trees[0].len(), trees[1].len(), "{left} and {right} differ in their number of files");
        for (path, bytes) in std::mem::take(&mut trees[0]) {
            assert!(trees[1].get(&path) == Some(&bytes), "{} differs", path.display());
        }
    }

    #[track_caller]
    pub fn assert_no_leftovers(&self) {
        let mut all = BTreeMap::new();
        self.walk(self.open_node.dir(), &mut all, self.open_node.dir());
        let left: Vec<_> = all.keys().filter(|p| self.is_leftover(p)).collect();
        assert!(left.is_empty(), "unfinished files are left: {left:?}");
    }

    /// Unfinished files below both ends.
    pub fn unfinished(&self) -> usize {
        let mut all = BTreeMap::new();
        self.walk(self.open_node.dir(), &mut all, self.open_node.dir());
        all.keys().filter(|p| p.to_string_lossy().contains(".longhaul-")).count()
    }

    /// Whether this is an unfinished file without a journal: no attempt can resume it.
    fn is_leftover(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let tag = name.strip_prefix(".longhaul-").map(|rest| rest.trim_end_matches(".part"));
        tag.is_some_and(|tag| !self.path("state/journals").join(tag).exists())
    }

    /// Waits until no job writes an unfinished file. A node may take a while to notice that its peer is gone.
    pub fn wait_until_idle(&self) {
        let at_rest = |path: &Path| fs::File::open(path).is_ok_and(|file| file.try_lock().is_ok());
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let dirs = ["state/journals", "near-state/journals"].map(|dir| fs::read_dir(self.path(dir)));
            if dirs.into_iter().flatten().flatten().flatten().all(|entry| at_rest(&entry.path())) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("a job still writes an unfinished file");
    }
}

/// Three streams: the number is not left to the pilot.
fn three_streams() -> SessionParts {
    SessionParts { streams: 3, streams_max: 3, ..SessionParts::default() }
}
