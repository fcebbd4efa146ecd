//! Requests to an SNMP agent: v2c with a community, or v3 with a user (RFC 3414, the crate `snmp2`).

use std::path::Path;
use std::time::Duration;

use snmp2::v3::{Auth, AuthErrorKind, AuthProtocol, Cipher, Security};
use snmp2::{Error, Oid, SyncSession, Value};

use crate::config::{SnmpCipher, SnmpDigest, SnmpLogin, SnmpUser};

/// How long an agent may take to answer.
const SILENCE: Duration = Duration::from_secs(2);
/// Sessions that are tried before an agent is given up: a datagram may be lost.
const TRIES: usize = 3;
/// Requests of one session that may be in vain because the agent's clock or number of restarts had to be learned from the answer.
const CLOCK_UPDATES_MAX: usize = 2;
/// Rows of an answer to one request: they fit into a packet of 1,500 bytes, since fragments are often dropped.
const ROWS_OF_ANSWER: u32 = 12;
/// Rows of a column; no agent may keep the watch busy for ever.
const ROWS_MAX: usize = 20_000;
/// Bytes of a text that are kept (SnmpAdminString, RFC 3411, has 255 at most).
const TEXT_BYTES_MAX: usize = 255;
/// The shortest password (RFC 3414, section 11.2).
const PASSWORD_BYTES_MIN: usize = 8;

/// A value of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SnmpValue {
    /// A signed number.
    Integer(i64),
    /// A counter or a gauge.
    Unsigned(u64),
    /// A text; bytes that are not UTF-8 are replaced.
    Text(String),
    /// The identifier of another object.
    Identifier(Vec<u64>),
    /// The agent has no such object, or it has a type of no use here.
    Absent,
}

impl SnmpValue {
    fn of(value: &Value<'_>) -> SnmpValue {
        match value {
            Value::Integer(number) => SnmpValue::Integer(*number),
            Value::Counter64(number) => SnmpValue::Unsigned(*number),
            Value::Counter32(number) | Value::Unsigned32(number) => SnmpValue::Unsigned(u64::from(*number)),
            Value::OctetString(text) => {
                SnmpValue::Text(String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]).into_owned())
            }
            Value::ObjectIdentifier(identifier) => numbers(identifier).map_or(SnmpValue::Absent, SnmpValue::Identifier),
            _ => SnmpValue::Absent,
        }
    }

    /// As a number without a sign.
    pub(super) fn unsigned(&self) -> Option<u64> {
        match self {
            SnmpValue::Unsigned(number) => Some(*number),
            SnmpValue::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// As a number with a sign.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            SnmpValue::Integer(number) => Some(*number),
            SnmpValue::Unsigned(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// As a text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            SnmpValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A row of a column: the index, and the value.
pub(super) type IndexedValue = (Vec<u64>, SnmpValue);

/// An agent. The session of a user is kept from one reading to the next: a key of SNMPv3 costs a megabyte of digest.
pub(super) struct Agent {
    address: String,
    login: SnmpLogin,
    session: Option<Box<SyncSession>>,
}

impl Agent {
    /// The agent at `HOST:PORT`; nothing is sent yet.
    pub(super) fn new(address: &str, login: SnmpLogin) -> Agent {
        Agent { address: address.to_owned(), login, session: None }
    }

    /// The address of the agent.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The values of objects, in their order. They fit into one answer.
    ///
    /// # Errors
    /// The agent does not answer, does not accept the user, or answers other objects.
    pub(super) fn get<const N: usize>(&mut self, objects: [Vec<u64>; N]) -> Result<[SnmpValue; N], String> {
        let identifiers = objects.iter().map(|numbers| identifier(numbers)).collect::<Result<Vec<_>, _>>()?;
        let requested: Vec<&Oid<'_>> = identifiers.iter().collect();
        let cells = self.request(|session| {
            Ok(session.get_many(&requested)?.varbinds.map(|(_, value)| SnmpValue::of(&value)).collect::<Vec<_>>())
        })?;
        let answered = cells.len();
        cells.try_into().map_err(|_| format!("the SNMP agent {} answers {answered} of {N} objects", self.address))
    }

    /// The rows of a column of a table, in the order of their indexes; none where the agent does not have the table.
    ///
    /// # Errors
    /// As for [`get`](Self::get); or the table has too many rows.
    pub(super) fn column(&mut self, column: &[u64]) -> Result<Vec<IndexedValue>, String> {
        let mut rows: Vec<IndexedValue> = Vec::new();
        let mut last = column.to_vec();
        loop {
            let after = identifier(&last)?;
            let answered = self.request(|session| {
                let answer = session.getbulk(&[&after], 0, ROWS_OF_ANSWER)?;
                let rows = answer.varbinds.map(|(name, value)| Some((numbers(&name)?, SnmpValue::of(&value))));
                Ok(rows.collect::<Vec<_>>())
            })?;
            if answered.is_empty() {
                return Ok(rows);
            }
            for row in answered {
                let Some((name, cell)) = row else { return Ok(rows) };
                let Some(index) = name.strip_prefix(column) else { return Ok(rows) };
                // An agent that does not count upwards would be asked for ever.
                if index.is_empty() || name <= last {
                    return Ok(rows);
                }
                rows.push((index.to_vec(), cell));
                last = name;
            }
            if rows.len() > ROWS_MAX {
                return Err(format!("the SNMP agent {} has a table of more than {ROWS_MAX} rows", self.address));
            }
        }
    }

    /// Gives back the session of a community, which has 128 KiB of buffers and nothing that is costly to make again.
    pub(super) fn drop_community_session(&mut self) {
        if matches!(self.login, SnmpLogin::Community(_)) {
            self.session = None;
        }
    }

    /// Sends a request. After a failure the next one has a session of its own, so that a late answer is not taken for its answer.
    fn request<T>(&mut self, mut send: impl FnMut(&mut SyncSession) -> Result<T, Error>) -> Result<T, String> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let opened = match self.session.take() {
                Some(session) => Ok(session),
                None => self.open()?,
            };
            let answered = opened.and_then(|mut session| {
                let mut answer = send(&mut session);
                for _ in 0..CLOCK_UPDATES_MAX {
                    if answer.as_ref().is_err_and(is_clock_update) {
                        answer = send(&mut session);
                    }
                }
                answer.map(|answer| (session, answer))
            });
            match answered {
                Ok((session, answer)) => {
                    self.session = Some(session);
                    return Ok(answer);
                }
                Err(error) => why = self.explain(&error),
            }
        }
        Err(why)
    }

    /// A new session; for a user it has asked the agent for its identity and its clock.
    fn open(&self) -> Result<Result<Box<SyncSession>, Error>, String> {
        let number = fastrand::i32(1..i32::MAX / 2);
        let failed = |error: std::io::Error| format!("the SNMP agent {}: {error}", self.address);
        match &self.login {
            SnmpLogin::Community(file) => {
                let community = file.as_deref().map_or(Ok("public".to_owned()), secret)?;
                let session = SyncSession::new_v2c(&self.address, community.as_bytes(), Some(SILENCE), number);
                session.map(|session| Ok(Box::new(session))).map_err(failed)
            }
            SnmpLogin::User(user) => {
                let session = SyncSession::new_v3(&self.address, Some(SILENCE), number, security(user)?);
                let mut session = session.map(Box::new).map_err(failed)?;
                Ok(session.init().map(|()| session))
            }
        }
    }

    fn explain(&self, error: &Error) -> String {
        let Agent { address, login, .. } = self;
        match (login, error) {
            (SnmpLogin::User(user), Error::AuthFailure(_)) => {
                format!(
                    "the SNMP agent {address} does not accept the user {:?} (name, passwords, auth, privacy?): {error}",
                    user.name
                )
            }
            (SnmpLogin::User(_), _) => {
                format!(
                    "the SNMP agent {address} does not answer (address, port, the password and the cipher of privacy?): {error}"
                )
            }
            (SnmpLogin::Community(_), _) => {
                format!("the SNMP agent {address} does not answer (address, port, community?): {error}")
            }
        }
    }
}

/// Whether a session has learned the agent's clock, or that the agent was restarted, from an authenticated answer: the request has to be sent again.
fn is_clock_update(error: &Error) -> bool {
    matches!(error, Error::AuthUpdated | Error::AuthFailure(AuthErrorKind::EngineTimeMismatch))
}

/// The user as the crate takes it, with the secrets of its files.
fn security(user: &SnmpUser) -> Result<Security, String> {
    let digest = match user.auth {
        SnmpDigest::Sha1 => AuthProtocol::Sha1,
        SnmpDigest::Sha224 => AuthProtocol::Sha224,
        SnmpDigest::Sha256 => AuthProtocol::Sha256,
        SnmpDigest::Sha384 => AuthProtocol::Sha384,
        SnmpDigest::Sha512 => AuthProtocol::Sha512,
    };
    let auth = match &user.privacy {
        None => Auth::AuthNoPriv,
        Some((cipher, file)) => {
            let cipher = match cipher {
                SnmpCipher::Aes128 => Cipher::Aes128,
                SnmpCipher::Aes192 => Cipher::Aes192,
                SnmpCipher::Aes256 => Cipher::Aes256,
            };
            Auth::AuthPriv { cipher, privacy_password: password(file)?.into_bytes() }
        }
    };
    let security = Security::new(user.name.as_bytes(), password(&user.auth_file)?.as_bytes());
    Ok(security.with_auth_protocol(digest).with_auth(auth))
}

/// The content of a file with a secret, without white space around it.
fn secret(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.trim().to_owned())
}

fn password(file: &Path) -> Result<String, String> {
    let password = secret(file)?;
    if password.len() < PASSWORD_BYTES_MIN {
        return Err(format!("{}: a password of SNMPv3 has {PASSWORD_BYTES_MIN} characters at least", file.display()));
    }
    Ok(password)
}

fn identifier(numbers: &[u64]) -> Result<Oid<'static>, String> {
    Oid::from(numbers).map_err(|error| format!("an SNMP object identifier is invalid: {error:?}"))
}

/// The numbers of an identifier; none where one is beyond 64 bits.
fn numbers(identifier: &Oid<'_>) -> Option<Vec<u64>> {
    identifier.iter().map(Iterator::collect)
}
