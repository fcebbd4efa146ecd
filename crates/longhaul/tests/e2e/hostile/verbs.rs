//! The verbs of the table of rights, as each protocol sends them.

use model::fault::Fault;
use model::{Algorithm, Refusal};
use wire::frame::Request;

use super::requests::Requests;
use super::rights_table::{PathRelation, Verb};
use super::session::{Session, place};
use crate::node::Node;

/// The outcome of a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerbOutcome {
    Done,
    Refused,
    Missing,
    /// A rename that is refused because it would leave the path of its grant.
    Stays,
    Other(String),
}

fn below(dir: &str, name: &str) -> String {
    [dir, name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn native(session: &mut Session, verb: Verb, at: PathRelation) -> Result<(), Refusal> {
    let (export, dir, across) = at.place();
    let here = |name: &str| place(export, &below(dir, name));
    match verb {
        Verb::Get => session.get(here("f")).map(drop),
        Verb::List => session.query(Request::List(here(""))).map(drop),
        Verb::Stat => session.query(Request::Stat(here("f"))).map(drop),
        Verb::Digest => session.query(Request::Digest(here("f"), vec![Algorithm::Adler32])).map(drop),
        Verb::PutNew => session.put(here("new"), b"new"),
        Verb::Overwrite => session.put(here("f"), b"other than it was"),
        Verb::MakeDir => session.query(Request::Mkdir(here("made"))).map(drop),
        Verb::Remove => session.query(Request::Remove(here("f"), false)).map(drop),
        Verb::RemoveAll => session.query(Request::Remove(here("sub"), true)).map(drop),
        Verb::RenameWithin => session.query(Request::Rename(here("f"), here("g"))).map(drop),
        Verb::RenameAcross => {
            session.query(Request::Rename(here("f"), place(export, &below(across, "came")))).map(drop)
        }
    }
}

/// Sends a verb in a session, which is opened where there is none.
pub fn by_native(
    node: &Node,
    key: Option<&str>,
    verb: Verb,
    at: PathRelation,
    open: &mut Option<Session>,
) -> VerbOutcome {
    let session = match open.take() {
        Some(session) => Ok(session),
        None => Session::open(node, key),
    };
    let done = session.and_then(|mut session| {
        let done = native(&mut session, verb, at);
        // A refused order ends the session, a refused request does not. A session is not used again after a pull: the node may
        // take the next request for a part of the pull.
        let is_order = matches!(verb, Verb::PutNew | Verb::Overwrite);
        if verb != Verb::Get && (done.is_ok() || !is_order) {
            *open = Some(session);
        }
        done
    });
    match done {
        Ok(()) => VerbOutcome::Done,
        Err(refusal) => match refusal.fault {
            Fault::Auth => VerbOutcome::Refused,
            Fault::Missing => VerbOutcome::Missing,
            Fault::Config if verb == Verb::RenameAcross => VerbOutcome::Stays,
            _ => VerbOutcome::Other(format!("{refusal:?}")),
        },
    }
}

/// Sends a verb as an HTTP request.
pub fn by_http(requests: &mut Requests<'_>, verb: Verb, at: PathRelation) -> VerbOutcome {
    let (export, dir, across) = at.place();
    let here = |name: &str| format!("/{export}/{}", below(dir, name));
    let destination = |target: &str| [("Destination".to_owned(), target.to_owned())];
    let (method, target, fields, body): (_, _, Vec<(String, String)>, &[u8]) = match verb {
        Verb::Get => ("GET", here("f"), Vec::new(), b""),
        Verb::List => ("PROPFIND", here(""), vec![("Depth".into(), "1".into())], b""),
        Verb::Stat => ("HEAD", here("f"), Vec::new(), b""),
        Verb::Digest => ("HEAD", here("f"), vec![("Want-Digest".into(), "adler32".into())], b""),
        Verb::PutNew => ("PUT", here("new"), Vec::new(), b"new"),
        Verb::Overwrite => ("PUT", here("f"), Vec::new(), b"other than it was"),
        Verb::MakeDir => ("MKCOL", here("made"), Vec::new(), b""),
        Verb::Remove => ("DELETE", here("f"), Vec::new(), b""),
        Verb::RemoveAll => ("DELETE", here("sub"), vec![("Depth".into(), "infinity".into())], b""),
        Verb::RenameWithin => ("MOVE", here("f"), destination(&here("g")).to_vec(), b""),
        Verb::RenameAcross => {
            ("MOVE", here("f"), destination(&format!("/{export}/{}", below(across, "came"))).to_vec(), b"")
        }
    };
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = requests.ask(method, &target, &fields, body);
    match answer.status {
        200..300 => VerbOutcome::Done,
        401 | 403 => VerbOutcome::Refused,
        404 => VerbOutcome::Missing,
        502 if verb == Verb::RenameAcross => VerbOutcome::Stays,
        status => VerbOutcome::Other(format!("{status} {}", answer.text())),
    }
}
