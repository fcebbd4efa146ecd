//! A client and a server in memory.

use super::*;
use crate::answer::{AnswerHead, LoginAnswer, RootAnswer};
use crate::credentials::{parse_token, security_text};
use crate::head::{RequestHead, SessionId, StreamId};
use crate::request::RootRequest;
use crate::{ErrorCode, Malformed};

/// A server without sockets: it answers requests of a login, and takes one token.
struct TestServer {
    login: ServerLogin,
    must_authenticate: bool,
}

impl TestServer {
    fn answer(&mut self, bytes: &[u8]) -> (RootAnswer, bool) {
        let bytes = bytes.strip_prefix(&HELLO[..]).unwrap_or(bytes);
        let (head, payload) = bytes.split_first_chunk().unwrap();
        let request = RootRequest::parse(&RequestHead::parse(head).unwrap(), payload).unwrap();
        if let Err((code, why)) = self.login.check(&request) {
            return (RootAnswer::error(code, why), false);
        }
        match request {
            RootRequest::Protocol { flags, purpose, .. } => match self.login.protocol(flags, purpose) {
                Ok((answer, begins)) => (RootAnswer::Ok(answer.to_bytes(true)), begins),
                Err(error) => (RootAnswer::error(ErrorCode::Unsupported, error.to_string()), false),
            },
            RootRequest::Login { .. } => {
                self.login.logged_in(self.must_authenticate);
                let security = if self.must_authenticate { security_text(Some(4096), false) } else { String::new() };
                (RootAnswer::Ok(LoginAnswer { session: SessionId([7; 16]), security }.to_bytes()), false)
            }
            RootRequest::Authenticate { credential, .. } if parse_token(&credential).as_deref() == Ok("good") => {
                self.login.authenticated();
                (RootAnswer::Ok(Vec::new()), false)
            }
            RootRequest::Bind(_) => {
                self.login.bound();
                (RootAnswer::Ok(vec![3]), false)
            }
            _ => (RootAnswer::error(ErrorCode::AuthFailed, "no"), false),
        }
    }
}

fn settings(tls: TlsWish, token: Option<&str>) -> ClientSettings {
    let token = token.map(str::to_owned);
    ClientSettings { tls, user: "ann".into(), process: 1, token, program: "test".into(), session: None }
}

/// Lets a client log in; returns the last step, and whether TLS began.
fn run(settings: ClientSettings, server: &mut TestServer) -> Result<(ClientStep, bool), LoginError> {
    let (mut client, mut bytes) = ClientLogin::begin(settings, false);
    let mut is_tls = false;
    loop {
        let (answer, begins) = server.answer(&bytes);
        let written = answer.to_bytes(StreamId::default());
        let (head, body) = written.split_first_chunk().unwrap();
        let answer = RootAnswer::parse(&AnswerHead::parse(head).unwrap(), body).unwrap();
        match client.answered(&answer)? {
            ClientStep::Send(next) => {
                assert!(!begins);
                bytes = next;
            }
            ClientStep::StartTls(next) => {
                assert!(begins);
                (bytes, is_tls) = (next, true);
            }
            step => return Ok((step, is_tls)),
        }
    }
}

fn server(has_tls: bool, requires_tls: bool, must_authenticate: bool) -> TestServer {
    TestServer { login: ServerLogin::new(has_tls, requires_tls, false), must_authenticate }
}

#[test]
fn a_client_logs_in_with_and_without_tls_and_a_token() {
    let ready = |outcome: Result<(ClientStep, bool), LoginError>| {
        let (step, is_tls) = outcome.unwrap();
        assert!(matches!(step, ClientStep::Ready { session: Some(_), path_id: 0, version: 0x511 }), "{step:?}");
        is_tls
    };
    assert!(!ready(run(settings(TlsWish::IfServerWants, None), &mut server(true, false, false))));
    assert!(ready(run(settings(TlsWish::Always, None), &mut server(true, false, false))));
    let mut strict = server(true, true, true);
    assert!(ready(run(settings(TlsWish::IfServerWants, Some("good")), &mut strict)));
    assert_eq!(strict.login.phase(), LoginPhase::Ready);
}

#[test]
fn a_token_is_never_sent_in_clear_text() {
    let outcome = run(settings(TlsWish::IfServerWants, Some("good")), &mut server(true, false, true));
    assert!(matches!(outcome, Err(LoginError::NoCredential(kinds)) if kinds == "ztn"));
}

#[test]
fn a_client_that_wants_tls_never_goes_on_without_it() {
    let outcome = run(settings(TlsWish::Always, None), &mut server(false, false, false));
    assert!(matches!(outcome, Err(LoginError::Refused { .. })), "{outcome:?}");
    // A server that ignores the wish.
    let (mut client, _) = ClientLogin::begin(settings(TlsWish::Always, None), false);
    let answer = RootAnswer::Ok(crate::answer::ProtocolAnswer { version: 0x511, flags: 1 }.to_bytes(false));
    assert_eq!(client.answered(&answer), Err(LoginError::NoTls));
}

#[test]
fn a_bad_credential_and_a_bound_connection_are_told_apart() {
    let outcome = run(settings(TlsWish::Always, Some("bad")), &mut server(true, true, true));
    assert!(outcome.as_ref().is_err_and(LoginError::is_about_rights), "{outcome:?}");
    let bound = ClientSettings { session: Some(SessionId([7; 16])), ..settings(TlsWish::IfServerWants, None) };
    let (step, _) = run(bound, &mut server(true, false, false)).unwrap();
    assert!(matches!(step, ClientStep::Ready { session: None, path_id: 3, .. }));
}

#[test]
fn requests_have_their_time() {
    let mut login = ServerLogin::new(true, true, false);
    let request = |login: &ServerLogin, request: RootRequest| login.check(&request).map_err(|(code, _)| code);
    let log_in = || RootRequest::Login {
        process: 1,
        user: "a".into(),
        is_able_tls: true,
        takes_async: false,
        about: Default::default(),
    };
    assert_eq!(request(&login, RootRequest::Ping), Err(ErrorCode::InvalidRequest));
    assert_eq!(request(&login, log_in()), Err(ErrorCode::TlsRequired));
    assert_eq!(request(&login, RootRequest::Bind(SessionId([0; 16]))), Err(ErrorCode::TlsRequired));
    let (_, begins) = login.protocol(2, crate::request::Purpose::Login).unwrap();
    assert!(begins && login.is_tls());
    assert_eq!(request(&login, log_in()), Ok(()));
    login.logged_in(true);
    assert_eq!(request(&login, RootRequest::Ping), Err(ErrorCode::InvalidRequest));
    login.authenticated();
    assert_eq!(request(&login, RootRequest::Ping), Ok(()));
    assert_eq!(request(&login, log_in()), Err(ErrorCode::InvalidRequest), "one login for each connection");
    let mut plain = ServerLogin::new(false, false, false);
    assert!(matches!(plain.protocol(4, crate::request::Purpose::Login), Err(Malformed::Order(_))));
}

#[test]
fn the_first_bytes_tell_the_protocol() {
    assert_eq!((begins(&[]), begins(&HELLO[..15]), begins(&HELLO[..16])), (None, None, Some(true)));
    assert_eq!((begins(b"GET /"), begins(&HELLO)), (Some(false), Some(true)));
}
