//! Tests when a file may be committed: while movers have it open, close it, or are gone.

use std::sync::mpsc::channel;

use model::spec::Options;
use wire::Frame;
use wire::frame::{Direction, Open};

use super::*;

/// A side that answers no stream.
struct IdleSide;

impl MoverSide for IdleSide {
    fn answer(&self, _: &MoverStream) {}
}

/// Movers without connections, `here` of which take streams.
fn movers(here: usize) -> Movers {
    let order = Open {
        job: [0; 16],
        direction: Direction::Push,
        places: Vec::new(),
        options: Options::default(),
        congestion: None,
        steer: LiveSettings::default(),
        listed: false,
    };
    let delegation = DelegationTerms { secret: Secret::new(&[0; 32]), suite: None, order };
    let peers = Arc::new(ConfiguredMovers::new(Vec::new(), Arc::new([]), Timeouts::default(), Box::new(|_, _| {})));
    let movers = Movers::begin(&peers, delegation, Arc::new(IdleSide), Waker::new().unwrap());
    let mut state = movers.0.state();
    for at in 0..here {
        let mut mover = Mover::new();
        let address = DelegatedAddress { at: ([192, 0, 2, at as u8], 7).into(), session: [at as u8; 16] };
        mover.phase = MoverPhase::Here;
        mover.addresses = vec![address];
        state.movers.push(mover);
    }
    drop(state);
    movers
}

fn take_sent(movers: &Movers, at: usize) -> Vec<Frame> {
    movers.0.state().movers[at].out.drain(..).collect()
}

#[test]
fn a_file_waits_for_the_movers_that_have_it_open() {
    let movers = movers(3);
    movers.0.state().movers[0].files.extend([(7, MoverFileState::Open), (8, MoverFileState::Open)]);
    movers.0.state().movers[2].files.insert(7, MoverFileState::Open);
    let (done, fenced) = channel();
    let waiting = movers.clone();
    std::thread::spawn(move || {
        done.send(waiting.fence(7)).unwrap();
    });
    let close = vec![Frame::Word(MoverMessage::Close(7))];
    let mut sent = Vec::new();
    while sent.len() < 2 {
        sent.extend([0, 2].into_iter().flat_map(|at| take_sent(&movers, at)));
    }
    assert_eq!(sent, [close.clone(), close].concat());
    assert!(take_sent(&movers, 1).is_empty());
    let closed = |at: usize| {
        movers.0.state().movers[at].files.remove(&7);
        movers.0.changed.notify_all();
    };
    closed(2);
    assert!(fenced.recv_timeout(Duration::from_millis(300)).is_err(), "one of them still has the file open");
    closed(0);
    assert!(fenced.recv_timeout(Duration::from_secs(20)).unwrap(), "all have closed it");
    assert_eq!(movers.0.state().movers[0].files, HashMap::from([(8, MoverFileState::Open)]), "others stay open");
}

#[test]
fn a_mover_that_is_gone_may_write_until_its_lease_is_over() {
    let movers = movers(1);
    let goes = |lease: Duration| {
        let until = Instant::now() + lease;
        movers.0.state().movers[0].phase = MoverPhase::Gone(until);
        until
    };
    movers.0.state().movers[0].files.insert(7, MoverFileState::Open);
    let until = goes(Duration::from_secs(60));
    movers.fence(9);
    assert!(Instant::now() < until, "another file does not wait");
    let until = goes(Duration::from_millis(200));
    movers.fence(7);
    assert!(Instant::now() >= until);
    assert!(take_sent(&movers, 0).is_empty(), "nothing is sent to a mover that is gone");
}

/// Blocks that a lost mover reported as written may have been only in the memory of its host.
#[test]
fn a_file_that_a_lost_mover_had_open_is_doubtful_once() {
    let movers = movers(2);
    {
        let mut state = movers.0.state();
        state.movers[0].files.extend([(7, MoverFileState::Open), (8, MoverFileState::Closing)]);
        state.movers[1].files.insert(9, MoverFileState::Closing);
    }
    mover_client::note_gone(&movers.0, 0);
    let fence = |file| movers.fence(file);
    movers.0.state().movers[1].files.remove(&9);
    assert_eq!([7, 8, 9].map(fence), [false, false, true]);
    assert_eq!([7, 8].map(fence), [true, true], "the first fence has reported it");
    // A mover that has sent the facts of its streams has closed its files before.
    movers.0.state().movers[1].files.clear();
    mover_client::note_gone(&movers.0, 1);
    assert!(fence(9));
}

/// A query for a file's location may cross the message that closes the file: then the file must not be opened again.
#[test]
fn a_file_that_is_being_closed_is_not_opened_again() {
    let movers = movers(1);
    let (_sender, queries) = channel();
    let stream = MoverStream { id: 3, mover: 0, queries, flags: Arc::default(), shared: Arc::clone(&movers.0) };
    let location =
        || Some(wire::mover::FileLocation { path: Default::default(), tag: "t".into(), size: 1, fills_holes: false });
    stream.note_open(7);
    stream.answer_location(7, location());
    assert!(matches!(take_sent(&movers, 0)[..], [Frame::Word(MoverMessage::Answer(3, Answer::Here(_)))]));
    movers.0.state().movers[0].files.insert(7, MoverFileState::Closing);
    stream.note_open(7);
    stream.answer_location(7, location());
    assert_eq!(take_sent(&movers, 0), [answer(3, Answer::Nowhere)]);
}

/// No session is delegated twice: a mover that joins again must not seal under keys that it has used.
#[test]
fn the_session_of_the_client_is_never_delegated_itself() {
    let movers = movers(0);
    let delegation = &movers.0.delegation;
    let [first, second] = [[1; 16], [2; 16]].map(|id| delegation.delegate(id));
    assert_eq!((first.session, second.session), ([1; 16], [2; 16]));
    let own = *delegation.secret.expose();
    assert!(first.secret != own && second.secret != own && first.secret != second.secret);
    assert_eq!(first.secret, *delegation.secret.delegated(&[1; 16]).expose(), "the client derives the same");
}
