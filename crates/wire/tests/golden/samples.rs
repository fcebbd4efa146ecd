//! One message of every type, with values that fill every field.

use model::account::{Account, StageTimes, TargetWaits};
use model::checksum::Digest;
use std::time::Duration;

use model::entry::{Attributes, Kind, Meta, Owner, Timestamp, Xattr};
use model::fault::Fault;
use model::locator::{HostPort, NodePlace};
use model::name::{Name, RelPath};
use model::spec::{Delete, Filter, LiveSettings, Options, Step, Sync};
use model::{Algorithm, Bytes, Refusal, v1};
use wire::Frame;
use wire::frame::{
    Claim, Counts, DelegationOrder, Direction, End, Entry, KeyProof, Listed, Offered, Open, Outcome, Plan, Removal,
    Request, Suite, Totals, UNKNOWN_SIZE, Verdict,
};
use wire::join::Join;
use wire::record::Part;

const TIME: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 };
const BEFORE: Timestamp = Timestamp { seconds: -2, nanos: 999_999_999 };

fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).unwrap()
}

fn path(bytes: &[u8]) -> RelPath {
    RelPath::parse(bytes).unwrap()
}

fn at(below: &[u8]) -> NodePlace {
    NodePlace::Path { export: "data".into(), path: path(below) }
}

fn refusal(fault: Fault, reason: &str) -> Refusal {
    Refusal::new(fault, reason)
}

fn digest(algorithm: Algorithm) -> Digest {
    let value: Vec<u8> = (1..=algorithm.value_bytes() as u8).collect();
    Digest::new(algorithm, &value).unwrap()
}

/// The names of the files under `testdata/` (without `frame-` and the ending), and the frames in each.
pub fn frames() -> Vec<(&'static str, Vec<Frame>)> {
    let mut all = session_frames();
    all.extend(job_and_tool_frames());
    all.extend(sender_frames());
    all.extend(receiver_frames());
    all
}

fn session_frames() -> Vec<(&'static str, Vec<Frame>)> {
    let login = |key, suites, plain| Frame::Login {
        session: *b"0123456789abcdef",
        software: "longhaul 0.1.0".into(),
        key,
        suites,
        plain,
    };
    let key = proof();
    let suites = vec![Suite::Aes128Gcm, Suite::ChaCha20Poly1305];
    let welcome = |suite, plain| Frame::Welcome { software: "longhaul 0.1.0".into(), suite, plain };
    vec![
        ("login", vec![login(Some(key), suites, true), login(None, vec![], false)]),
        ("welcome", vec![welcome(Suite::Aes128Gcm, false), welcome(Suite::ChaCha20Poly1305, true)]),
        ("abort", FAULTS.map(|fault| Frame::Abort(refusal(fault, "no room: quota of 1 TiB is used up"))).to_vec()),
        ("ping", vec![Frame::Ping(0), Frame::Ping(u64::MAX)]),
        ("pong", vec![Frame::Pong(300)]),
        ("facts", vec![Frame::Facts(vec![facts(), v1::Stream::default()])]),
    ]
}

const FAULTS: [Fault; 8] =
    [Fault::Config, Fault::Local, Fault::Peer, Fault::Path, Fault::Storage, Fault::Auth, Fault::Integrity, Fault::Bug];

fn proof() -> KeyProof {
    KeyProof { id: [7; 8], secret: [9; 32] }
}

const STEER: LiveSettings = LiveSettings { limit_bit_s: 10 << 30, streams: 1024, paused: true };

fn order(direction: Direction, places: Vec<NodePlace>, options: Options, congestion: Option<&str>) -> Open {
    let congestion = congestion.map(str::to_owned);
    let (steer, listed) = (STEER, direction == Direction::Pull);
    Open { job: *b"fedcba9876543210", direction, places, options, congestion, steer, listed }
}

pub fn push_order() -> Open {
    order(Direction::Push, vec![at(b"in")], Options::default(), Some("bbr"))
}

fn facts() -> v1::Stream {
    v1::Stream {
        id: 3,
        bytes: 1 << 40,
        rtt_s: 0.301_5,
        min_rtt_s: 0.3,
        retransmits: 12,
        cwnd_segments: 40_000,
        mss_bytes: 8948,
        delivery_rate_bit_s: 99_000_000_000,
        receive_window_limited_s: 0.25,
        send_buffer_limited_s: 1.5,
        busy_s: 60.000_001,
        sent_bytes: 1 << 41,
        resent_bytes: 7,
        window_bytes: 1 << 30,
        window_scaling: true,
        congestion: "bbr".into(),
        payload: "sealed".into(),
        // Each end knows its own addresses: they are not sent.
        ..v1::Stream::default()
    }
}

fn account() -> Account {
    let spans = [1, 20, 300, 4000, 50_000].map(std::time::Duration::from_micros);
    Account {
        threads: 8,
        spent: StageTimes { wall: spans, cpu: spans, longest: spans, records: 1 << 33 },
        processors: 128,
        busy_permille: 1000,
        receive_buffer_max: 1 << 30,
        send_buffer_max: 1 << 29,
        scales_windows: true,
        missed: "bbr".into(),
        streams: 24,
        capacity_bit_s: 9_876_543_210,
        clear_loss_ppb: 46_000,
        share_bit_s: 5_000_000_000,
    }
}

/// The algorithms of the first version of these samples.
const FIRST_ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Crc32c, Algorithm::Adler32, Algorithm::Md5, Algorithm::Sha256, Algorithm::Blake3];

fn job_and_tool_frames() -> Vec<(&'static str, Vec<Frame>)> {
    let file = Meta { kind: Kind::File, mode: 0o644, size: 1 << 33, mtime: TIME };
    let digests = FIRST_ALGORITHMS.map(digest).to_vec();
    let failure = Some(refusal(Fault::Storage, "input/output error"));
    let lines = vec![
        Listed { path: path(b"run1/x"), meta: file, link: None, digests, failure: None },
        Listed { failure, ..Listed::plain(path(b"y"), file, None) },
        Listed::plain(path(b""), Meta { kind: Kind::Dir, mode: 0o7755, size: 0, mtime: BEFORE }, None),
        Listed::plain(path(b"l"), Meta { kind: Kind::Symlink, ..file }, Some(b"../\xff".to_vec())),
        Listed::plain(path(b"s"), Meta { kind: Kind::Special, ..file }, None),
    ];
    let asks = [
        Request::Stat(at(b"run1/x")),
        Request::List(NodePlace::Exports),
        Request::Mkdir(at(b"new")),
        Request::Remove(at(b"old"), true),
        Request::Rename(at(b"a"), at(b"b\xff")),
        Request::Digest(at(b""), FIRST_ALGORITHMS.to_vec()),
        Request::Stat(NodePlace::Null),
        Request::Stat(NodePlace::Zero(Bytes(1 << 30))),
    ];
    let options = Options {
        copy_links: false,
        recursive: true,
        into: true,
        sync: Sync::Digest,
        no_overwrite: true,
        durable: true,
        checksums: vec![Algorithm::Crc32c, Algorithm::Adler32],
        delete: Delete::Careful,
        dry_run: true,
        owner: true,
        xattrs: true,
        wait_space: Duration::from_secs(600),
        filters: vec![
            Filter { include: true, pattern: "*.fits".into() },
            Filter { include: false, pattern: "**".into() },
        ],
    };
    let delegation = DelegationOrder {
        order: order(Direction::Push, vec![at(b"there")], Options::default(), None),
        sources: vec![at(b"here"), NodePlace::Zero(Bytes(5))],
        to: HostPort { host: "dtn.example.org".into(), port: 7411 },
        node: [3; 32],
        key: proof(),
        plain: true,
        retry_for_s: 900,
    };
    let change =
        v1::Change { limit_bit_s: Some(0), limit_for_s: None, streams: Some(3), paused: Some(true), cancel: true };
    let more = [
        Request::KeyFor { job: *b"fedcba9876543210", place: at(b"there"), delete: true },
        Request::Carry(Box::new(delegation)),
        Request::Jobs(None),
        Request::Jobs(Some(*b"fedcba9876543210")),
        Request::Change(*b"fedcba9876543210", change),
        Request::Change(*b"fedcba9876543210", v1::Change { paused: Some(false), ..v1::Change::default() }),
        Request::Probe(r#"{"first_stream":7}"#.into()),
    ];
    vec![
        ("ask", asks.into_iter().chain(more).enumerate().map(|(n, ask)| Frame::Request(n as u32 * 100, ask)).collect()),
        ("answer", vec![Frame::Reply(5, lines, true), Frame::Reply(u32::MAX, vec![], false)]),
        ("denied", vec![Frame::Denied(6, refusal(Fault::Auth, "the key does not allow to write"))]),
        (
            "open",
            vec![
                Frame::Open(order(Direction::Push, vec![at(b"in")], options, Some("bbr"))),
                Frame::Open(order(Direction::Pull, vec![at(b"a"), at(b"b")], Options::default(), None)),
            ],
        ),
        ("files", vec![Frame::Files(vec![(path(b"a/b"), path(b"c")), (path(b"d"), path(b"d\xff"))], true)]),
        ("told", vec![Frame::Told(9, "{\"v\":1}".into(), true), Frame::Told(10, String::new(), false)]),
        ("steer", vec![Frame::Steer(STEER), Frame::Steer(LiveSettings::default())]),
        ("busy", vec![Frame::Busy("the target is full".into())]),
        ("keep", vec![Frame::Keep(60)]),
        (
            "addresses",
            vec![
                Frame::Addresses(vec!["192.0.2.7:4433".parse().unwrap(), "[2001:db8::7]:65535".parse().unwrap()]),
                Frame::Addresses(Vec::new()),
            ],
        ),
        ("spread", vec![Frame::Spread(vec![(1, 4), (1024, 0)])]),
        (
            "renew",
            vec![
                Frame::Renew { key: Some(proof()), opened: 9, kept: vec![1, 4, 1024] },
                Frame::Renew { key: None, opened: 0, kept: Vec::new() },
            ],
        ),
        ("lineage", vec![Frame::Lineage(vec![vec![[7; 16], [0xff; 16]], Vec::new()])]),
        (
            "missed",
            vec![
                Frame::Missed(vec![(path(b"t/extra"), refusal(Fault::Storage, "it stays"))]),
                Frame::Missed(Vec::new()),
            ],
        ),
        ("doubted", vec![Frame::Doubted(vec![1, 300])]),
        ("waited", vec![Frame::Waited(TargetWaits { space: Duration::from_millis(30_500), writer: Duration::ZERO })]),
        ("removing", vec![Frame::Removing(Removal { extras: 7, total: 1_000 })]),
        ("counts", vec![Frame::Counts(Counts { unfinished: 3, refreshed: 300 }), Frame::Counts(Counts::default())]),
        ("account", vec![Frame::Account(Box::default()), Frame::Account(Box::new(account()))]),
    ]
}

fn sender_frames() -> Vec<(&'static str, Vec<Frame>)> {
    let new = |id, parent, text: &[u8], what| Entry::New { id, parent, name: name(text), what, attributes: None };
    let owner = Owner { uid: 1000, gid: u32::MAX, user: "ada".into(), group: String::new() };
    let xattrs = vec![Xattr { name: b"user.origin".to_vec(), value: b"run 7\0\xff".to_vec() }];
    let attributes = Some(Box::new(Attributes { owner: Some(owner), xattrs, sparse: true, implied: true }));
    let entries = vec![
        new(1, 0, b"top", Offered::Dir { mode: 0o755, mtime: TIME }),
        new(2, 1, b"a\xffb", Offered::File { mode: 0o640, mtime: BEFORE, size: (1 << 40) + 1 }),
        new(3, 1, b"pipe", Offered::File { mode: 0o600, mtime: TIME, size: UNKNOWN_SIZE }),
        new(4, 1, b"link", Offered::Symlink { mtime: TIME, target: b"../x".to_vec() }),
        new(5, 1, b"again", Offered::HardLink { to: 2, path: path(b"a\xffb") }),
        new(6, 1, b"fifo", Offered::Special),
        new(7, 1, b"shut", Offered::Failed(refusal(Fault::Storage, "permission denied"))),
        Entry::New {
            id: 8,
            parent: 1,
            name: name(b"owned"),
            what: Offered::File { mode: 0o600, mtime: TIME, size: 9 },
            attributes,
        },
        Entry::Leave(1),
    ];
    let ends = vec![
        End { id: 2, size: (1 << 40) + 1, digests: vec![digest(Algorithm::Crc32c), digest(Algorithm::Sha256)] },
        End { id: 3, size: 0, digests: vec![] },
    ];
    vec![
        ("entries", vec![Frame::Entries(entries)]),
        ("inline", vec![Frame::Inline(record().concat())]),
        ("ends", vec![Frame::Ends(ends)]),
        ("drops", vec![Frame::Drops(vec![(2, refusal(Fault::Storage, "it changed while it was read"))])]),
        ("held", vec![Frame::Held(vec![(2, 1 << 20, 1 << 20), (3, 0, 1)])]),
        ("same", vec![Frame::Same(vec![1, 127, 128, u64::MAX])]),
        ("scan-end", vec![Frame::ScanEnd(65_536)]),
    ]
}

fn receiver_frames() -> Vec<(&'static str, Vec<Frame>)> {
    let totals = Totals {
        files: 1,
        bytes: 2 << 50,
        directories: 3,
        links: 4,
        skipped: 5,
        skipped_bytes: 6,
        special: 7,
        failed: 8,
        resent_bytes: 9,
        resumed_bytes: 10,
        deleted: 11,
    };
    let claims = vec![
        Claim { offset: 0, len: 10, crc32c: 0x0102_0304 },
        Claim { offset: 1 << 30, len: 1 << 20, crc32c: u32::MAX },
    ];
    let plans = Step::ALL.map(|step| Plan { step, path: path(b"a/b"), bytes: 1 << 40 });
    let verdicts =
        vec![(2, Verdict::Want), (3, Verdict::WantRest(claims)), (4, Verdict::WantUnless(digest(Algorithm::Blake3)))];
    let outcomes = vec![
        (2, Outcome::Done),
        (3, Outcome::Skipped),
        (4, Outcome::Failed(refusal(Fault::Integrity, "its md5 differs"))),
    ];
    vec![
        ("verdicts", vec![Frame::Verdicts(verdicts)]),
        ("outcomes", vec![Frame::Outcomes(outcomes)]),
        ("again", vec![Frame::Again(vec![(2, 1 << 20, 1 << 20), (3, 0, 0)])]),
        ("received", vec![Frame::Received(vec![(1, 16), (1024, 1 << 33)])]),
        ("plans", vec![Frame::Plans(plans.to_vec())]),
        ("finished", vec![Frame::Finished(totals)]),
    ]
}

/// Rows of a record's table, and the payload of those that are not holes.
pub fn parts() -> (Vec<Part>, Vec<u8>) {
    let payload = b"123456789".to_vec();
    let crc = model::checksum::crc32c(&payload);
    let zeros = model::checksum::crc32c_zeros(1 << 40);
    let parts = vec![
        Part { file: 2, offset: 0, len: 9, crc32c: crc, hole: false, whole: true },
        Part { file: 3, offset: 1 << 40, len: 1 << 40, crc32c: zeros, hole: true, whole: false },
        Part { file: u64::MAX, offset: 5, len: 0, crc32c: 0, hole: false, whole: false },
    ];
    (parts, payload)
}

/// A record: head, table with its check, payload.
pub fn record() -> [Vec<u8>; 3] {
    let (parts, payload) = parts();
    let head = wire::record::Head::new(parts.len(), payload.len());
    let mut table = vec![0; head.table_len()];
    wire::record::encode_table(&head, &parts, &mut table);
    [head.encode().to_vec(), table, payload]
}

pub fn join() -> Join {
    Join { session: *b"0123456789abcdef", stream: 1024, sealed: true, code: [0xc5; 32] }
}
