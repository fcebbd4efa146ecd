//! When a file may be committed: with movers that have it open, that close it, and that are gone.

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

/// Movers without any connection, of which so many take streams.
fn movers(here: usize) -> Movers {
    let order = Open {
        job: [0; 16],
        direction: Direction::Push,
        places: Vec::new(),
        options: Options::default(),
        congestion: None,
        steer: Steer::default(),
        listed: false,
    };
    let loans = DelegationTerms { secret: Secret::new(&[0; 32]), suite: None, order };
    let peers = Arc::new(Peers::new(Vec::new(), Arc::new([]), Timeouts::default(), Box::new(|_, _| {})));
    let movers = Movers::begin(&peers, loans, Arc::new(IdleSide), Waker::new().unwrap());
    let mut state = movers.0.state();
    for at in 0..here {
        let mut mover = Mover::new();
        let loan = DelegatedAddress { at: ([192, 0, 2, at as u8], 7).into(), session: [at as u8; 16] };
        (mover.phase, mover.loans) = (MoverPhase::Here, vec![loan]);
        state.movers.push(mover);
    }
    drop(state);
    movers
}

fn said(movers: &Movers, at: usize) -> Vec<Frame> {
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
    let mut told = Vec::new();
    while told.len() < 2 {
        told.extend([0, 2].into_iter().flat_map(|at| said(&movers, at)));
    }
    assert_eq!(told, [close.clone(), close].concat());
    assert!(said(&movers, 1).is_empty());
    let closed = |at: usize| {
        movers.0.state().movers[at].files.remove(&7);
        movers.0.changed.notify_all();
    };
    closed(2);
    assert!(fenced.recv_timeout(Duration::from_millis(300)).is_err(), "one of them still has it");
    closed(0);
    assert!(fenced.recv_timeout(Duration::from_secs(20)).unwrap(), "all have closed it");
    assert_eq!(movers.0.state().movers[0].files, HashMap::from([(8, MoverFileState::Open)]), "others stay open");
}

#[test]
fn one_that_is_gone_may_write_until_its_lease_is_over() {
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
    assert!(said(&movers, 0).is_empty(), "nobody is there to be told");
}

/// Blocks that the mover reported as written may have been in its host's memory alone.
#[test]
fn what_a_lost_mover_had_open_is_doubtful_once() {
    let movers = movers(2);
    {
        let mut state = movers.0.state();
        state.movers[0].files.extend([(7, MoverFileState::Open), (8, MoverFileState::Closing)]);
        state.movers[1].files.insert(9, MoverFileState::Closing);
    }
    mover_client::part(&movers.0, 0);
    let fence = |file| movers.fence(file);
    movers.0.state().movers[1].files.remove(&9);
    assert_eq!([7, 8, 9].map(fence), [false, false, true]);
    assert_eq!([7, 8].map(fence), [true, true], "it was looked at");
    // One that said how its streams did has let go of everything before.
    movers.0.state().movers[1].files.clear();
    mover_client::part(&movers.0, 1);
    assert!(fence(9));
}

/// A query for a file's location may cross the message that closes the file: then the file must not be opened again.
#[test]
fn what_was_closed_is_not_opened_again_by_an_answer_on_its_way() {
    let movers = movers(1);
    let (_asks, heard) = channel();
    let stream = MoverStream { id: 3, mover: 0, asks: heard, flags: Arc::default(), shared: Arc::clone(&movers.0) };
    let here =
        || Some(wire::mover::FileLocation { path: Default::default(), tag: "t".into(), size: 1, fills_holes: false });
    stream.holds(7);
    stream.tell_where(7, here());
    assert!(matches!(said(&movers, 0)[..], [Frame::Word(MoverMessage::Answer(3, Answer::Here(_)))]));
    movers.0.state().movers[0].files.insert(7, MoverFileState::Closing);
    stream.holds(7);
    stream.tell_where(7, here());
    assert_eq!(said(&movers, 0), [answer(3, Answer::Nowhere)]);
}

/// No session is delegated twice: a mover that comes again must not seal under keys that it has used.
#[test]
fn the_session_of_the_client_is_never_lent_itself() {
    let movers = movers(0);
    let loans = &movers.0.loans;
    let [first, second] = [[1; 16], [2; 16]].map(|name| loans.lend(name));
    assert_eq!((first.session, second.session), ([1; 16], [2; 16]));
    let own = *loans.secret.expose();
    assert!(first.secret != own && second.secret != own && first.secret != second.secret);
    assert_eq!(first.secret, *loans.secret.lent(&[1; 16]).expose(), "the client derives the same");
}
