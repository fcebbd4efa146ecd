//! Counters from a real SNMP agent (Net-SNMP), by v2c and by v3.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "agents/snmpd.rs"]
mod snmpd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use snmpd::{Snmpd, until};
use watch::config::{SnmpCipher, SnmpDigest, SnmpLogin, SnmpUser};
use watch::counters::Reading;
use watch::counters::row_between;
use watch::counters::snmp::SnmpInterface;

const AUTH: &str = "the password of auth";
const PRIVACY: &str = "the password of privacy";

/// Users of the agent, with all that the watch offers.
const USERS: &str = r#"
createUser modern SHA-256 "the password of auth" AES "the password of privacy"
createUser older SHA "the password of auth" AES "the password of privacy"
createUser strong SHA-512 "the password of auth" AES-256 "the password of privacy"
createUser middle SHA-384 "the password of auth" AES-192 "the password of privacy"
createUser plain SHA-224 "the password of auth"
rouser modern priv
rouser older priv
rouser strong priv
rouser middle priv
rouser plain auth
"#;

/// Files with secrets.
struct Secrets(tempfile::TempDir);

impl Secrets {
    fn new() -> Secrets {
        let secrets = Secrets(tempfile::tempdir().unwrap());
        for (name, secret) in
            [("auth", AUTH), ("privacy", PRIVACY), ("wrong", "another password"), ("community", "watched")]
        {
            std::fs::write(secrets.0.path().join(name), format!("{secret}\n")).unwrap();
        }
        secrets
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn community(&self) -> SnmpLogin {
        SnmpLogin::Community(Some(self.path("community")))
    }

    fn user(&self, name: &str, auth: SnmpDigest, privacy: Option<SnmpCipher>) -> SnmpLogin {
        let privacy = privacy.map(|cipher| (cipher, self.path("privacy")));
        SnmpLogin::User(SnmpUser { name: name.into(), auth, auth_file: self.path("auth"), privacy })
    }

    fn modern(&self) -> SnmpLogin {
        self.user("modern", SnmpDigest::Sha256, Some(SnmpCipher::Aes128))
    }
}

fn read(agent: &Snmpd, interface: &str, login: SnmpLogin) -> Result<Reading, String> {
    SnmpInterface::new(&agent.at, interface, login).read()
}

#[test]
fn an_agent_is_read_by_name_and_by_number() {
    let Some(agent) = Snmpd::start("an_agent_is_read_by_name_and_by_number", "rocommunity watched 127.0.0.1\n") else {
        return;
    };
    let secrets = Secrets::new();
    let first = until("the agent answers", || read(&agent, "lo", secrets.community()).ok());
    let quiet = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = quiet.local_addr().unwrap();
    let mut by_number = SnmpInterface::new(&agent.at, "1", secrets.community());
    let more = until("the agent counts octets of the loopback interface", || {
        for _ in 0..100 {
            quiet.send_to(&[0; 1_000], to).unwrap();
        }
        let reading = by_number.read().unwrap();
        (reading.in_octets? >= first.in_octets? + 50_000).then_some(reading)
    });
    assert!(more.out_octets >= first.out_octets && more.at >= first.at && more.in_errors.is_some(), "{more:?}");
    assert!(row_between(&first, &more).unwrap().values[0] > Some(0));
    let unknown = read(&agent, "et-0/0/1", secrets.community()).unwrap_err();
    assert!(unknown.contains("no interface \"et-0/0/1\""), "{unknown}");
    let unknown = read(&agent, "4000000", secrets.community()).unwrap_err();
    assert!(unknown.contains("no interface 4000000"), "{unknown}");
    let stranger = read(&agent, "lo", SnmpLogin::Community(None)).unwrap_err();
    assert!(stranger.contains("community?"), "{stranger}");
}

#[test]
fn users_of_snmpv3_read_with_each_digest_and_cipher() {
    let Some(agent) = Snmpd::start("users_of_snmpv3_read_with_each_digest_and_cipher", USERS) else { return };
    let secrets = Secrets::new();
    until("the agent answers", || read(&agent, "lo", secrets.modern()).ok());
    let users = [
        ("older", SnmpDigest::Sha1, Some(SnmpCipher::Aes128)),
        ("strong", SnmpDigest::Sha512, Some(SnmpCipher::Aes256)),
        ("middle", SnmpDigest::Sha384, Some(SnmpCipher::Aes192)),
        ("plain", SnmpDigest::Sha224, None),
    ];
    for (name, auth, privacy) in users {
        let reading =
            read(&agent, "lo", secrets.user(name, auth, privacy)).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(reading.in_octets.is_some(), "{name}: {reading:?}");
    }
}

#[test]
fn an_agent_of_snmpv3_refuses_wrong_users_and_secrets() {
    let Some(agent) = Snmpd::start("an_agent_of_snmpv3_refuses_wrong_users_and_secrets", USERS) else { return };
    let secrets = Secrets::new();
    until("the agent answers", || read(&agent, "lo", secrets.modern()).ok());
    let refused = |what: &str, login: SnmpLogin| {
        let why = read(&agent, "lo", login).unwrap_err();
        assert!(why.contains(&agent.at) && !why.contains("password of"), "{what}: {why}");
        why
    };
    let with = |auth_file: &str, privacy_file: &str| {
        let files = [auth_file, privacy_file].map(|name| secrets.path(name));
        let [auth_file, privacy_file]: [PathBuf; 2] = files;
        let privacy = Some((SnmpCipher::Aes128, privacy_file));
        SnmpLogin::User(SnmpUser { name: "modern".into(), auth: SnmpDigest::Sha256, auth_file, privacy })
    };
    let unknown = refused("unknown user", secrets.user("nobody", SnmpDigest::Sha256, Some(SnmpCipher::Aes128)));
    assert!(unknown.contains("does not accept the user \"nobody\""), "{unknown}");
    let wrong = refused("wrong password", with("wrong", "privacy"));
    assert!(wrong.contains("does not accept the user \"modern\""), "{wrong}");
    refused("wrong password of privacy", with("auth", "wrong"));
    refused("another digest", secrets.user("modern", SnmpDigest::Sha512, Some(SnmpCipher::Aes128)));
    // The agent demands privacy of this user.
    refused("no privacy", secrets.user("modern", SnmpDigest::Sha256, None));
}

#[test]
fn a_session_of_snmpv3_outlives_a_restart_of_the_agent() {
    let test = "a_session_of_snmpv3_outlives_a_restart_of_the_agent";
    let Some(mut agent) = Snmpd::start(test, USERS) else { return };
    let secrets = Secrets::new();
    let mut interface = SnmpInterface::new(&agent.at, "lo", secrets.modern());
    until("the agent answers", || interface.read().ok());
    agent.restart();
    until("the agent answers another user", || {
        read(&agent, "lo", secrets.user("plain", SnmpDigest::Sha224, None)).ok()
    });
    // The agent has counted its restart; the kept session learns that in the first reading.
    interface.read().unwrap();
    agent.forget_identity();
    agent.restart();
    until("the agent answers another user", || {
        read(&agent, "lo", secrets.user("plain", SnmpDigest::Sha224, None)).ok()
    });
    // Keys belong to an identity of the agent: a new session asks for it.
    interface.read().unwrap();
}

#[test]
fn a_session_of_snmpv3_follows_the_clock_of_the_agent() {
    let test = "a_session_of_snmpv3_follows_the_clock_of_the_agent";
    let Some(library) = faketime() else {
        return snmpd::skipped(test, "there is no libfaketime (scripts/setup.sh installs it)");
    };
    // Its clock passes the window of 150 s in a second and a half.
    let Some(agent) = Snmpd::start_with(test, USERS, &[("LD_PRELOAD", &library), ("FAKETIME", Path::new("+0 x200"))])
    else {
        return;
    };
    let secrets = Secrets::new();
    let mut interface = SnmpInterface::new(&agent.at, "lo", secrets.modern());
    until("the agent answers", || interface.read().ok());
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1_500));
        interface.read().unwrap();
    }
}

fn faketime() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?;
    let library = |directory: std::fs::DirEntry| directory.path().join("faketime/libfaketime.so.1");
    directories.flatten().map(library).find(|library| library.exists())
}
