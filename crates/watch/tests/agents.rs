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

/// Users of the agent, with each digest and cipher that the watch offers.
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
    // Its clock runs 200 times as fast: within a second and a half it leaves the time window of 150 s.
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

/// The awk program that answers for `pass`, from a table of lines with an object's identifier, its type and its value.
const ANSWER: &str = r#"
function compare(a, b, left, right, n, m, at) {
    n = split(substr(a, 2), left, "."); m = split(substr(b, 2), right, ".")
    for (at = 1; at <= n && at <= m; at++) if (left[at] + 0 != right[at] + 0) return left[at] + 0 < right[at] + 0 ? -1 : 1
    return n - m
}
{
    order = compare($1, wanted)
    if (mode == "-g" ? order == 0 : order > 0 && (best == "" || compare($1, best) < 0)) { best = $1; type = $2; $1 = $2 = ""; value = substr($0, 3) }
}
END { if (best != "") { print best; print type; print value } }
"#;

/// The tables of a host with optics, which the agent answers from files.
struct Tables(tempfile::TempDir);

impl Tables {
    /// The tables below ENTITY-MIB (47) and ENTITY-SENSOR-MIB (99).
    const ROOTS: [&str; 2] = ["47", "99"];

    fn new() -> Tables {
        let tables = Tables(tempfile::tempdir().unwrap());
        std::fs::write(tables.0.path().join("answer.awk"), ANSWER).unwrap();
        // Never empty: a walk of an empty table repeats one command, and the agent caches the answer to a repeated command.
        tables.set(&[(10, [8, 9, 0, 35])]);
        tables
    }

    fn config(&self) -> String {
        let dir = self.0.path().display();
        let script = self.0.path().join("answer.sh");
        std::fs::write(&script, format!("exec awk -v mode=\"$2\" -v wanted=\"$3\" -f {dir}/answer.awk {dir}/\"$1\"\n"))
            .unwrap();
        let pass = |root: &str| format!("pass .1.3.6.1.2.1.{root} /bin/sh {dir}/answer.sh {root}\n");
        format!("{USERS}{}", Tables::ROOTS.map(pass).concat())
    }

    /// Replaces the tables: parts of the host (number, name, container), and sensors (number, type, scale, precision, value).
    fn set(&self, sensors: &[(u32, [i64; 4])]) {
        let parts = [
            (5, "port of lo", 1),
            (6, "optic of lo", 5),
            (7, "Rx Power lane 1", 6),
            (8, "Rx Power lane 2", 6),
            (9, "Tx Power lane 1", 6),
            (10, "Temperature", 6),
            (12, "port of another", 1),
            (13, "Rx Power", 12),
        ];
        let parts = parts.iter().map(|(part, name, within)| {
            let entry = ".1.3.6.1.2.1.47.1.1.1.1";
            format!("{entry}.4.{part} integer {within}\n{entry}.7.{part} string {name}\n")
        });
        let aliases = [(5, 1), (12, 77)]
            .map(|(part, index)| format!(".1.3.6.1.2.1.47.1.3.2.1.2.{part}.0 objectid .1.3.6.1.2.1.2.2.1.1.{index}\n"));
        std::fs::write(self.0.path().join("47"), parts.chain(aliases).collect::<String>()).unwrap();
        let sensors = sensors.iter().map(|(part, [kind, scale, precision, value])| {
            let cells = [*kind, *scale, *precision, *value, 1];
            let cell = |(at, cell): (usize, i64)| format!(".1.3.6.1.2.1.99.1.1.1.{}.{part} integer {cell}\n", at + 1);
            cells.into_iter().enumerate().map(cell).collect::<String>()
        });
        std::fs::write(self.0.path().join("99"), sensors.collect::<String>()).unwrap();
    }
}

#[test]
fn light_is_read_from_the_sensors_of_the_interface() {
    let tables = Tables::new();
    let Some(agent) = Snmpd::start("light_is_read_from_the_sensors_of_the_interface", &tables.config()) else { return };
    let secrets = Secrets::new();
    let dark = until("the agent answers", || read(&agent, "lo", secrets.modern()).ok());
    assert_eq!(dark.light_in_dbm, None, "the host has no sensors of light");
    // Lane 1 in tenths of a microwatt, lane 2 in microwatts. Light that is sent, and a temperature, are no light that is received.
    let with = |lane_2: i64| {
        [(7, [6, 7, 1, 5_012]), (8, [6, 7, 0, lane_2]), (9, [6, 7, 0, 1]), (10, [8, 9, 0, 35]), (13, [6, 7, 0, 1])]
    };
    tables.set(&with(631));
    let mut interface = SnmpInterface::new(&agent.at, "lo", secrets.modern());
    let light = |interface: &mut SnmpInterface| {
        interface.read().unwrap().light_in_dbm.map(|light| (light * 100.0).round() / 100.0)
    };
    assert_eq!(light(&mut interface), Some(-3.0), "the weaker lane counts");
    tables.set(&with(100));
    let before = interface.read().unwrap();
    assert_eq!(light(&mut interface), Some(-10.0));
    let after = interface.read().unwrap();
    let row = row_between(&Reading { at: before.at - 1_000, ..before }, &after).unwrap();
    assert_eq!(row.values[6], Some(-10_000), "it is stored as light of CSV is");
    // Another optic, with another sensor: it is found at the next reading.
    tables.set(&[(9, [6, 7, 0, 1])]);
    assert_eq!(light(&mut interface), None);
    tables.set(&[(8, [14, 9, 2, -725])]);
    assert_eq!(light(&mut interface), Some(-7.25));
    let by_number = SnmpInterface::new(&agent.at, "1", secrets.modern()).read().unwrap();
    assert_eq!(by_number.light_in_dbm, Some(-7.25));
}
