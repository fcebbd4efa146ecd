//! Readings, the rows that are made from them, and the loss that they explain.

use model::v1::watch::Health;

use super::*;
use crate::config::{Config, CounterSource, SnmpCipher, SnmpDigest, SnmpLogin, SnmpUser};

const CONFIG: &str =
    "[[interface]]\nname = \"border\"\nsite = \"geneva\"\ncapacity = \"10G\"\ncsv = \"counters.csv\"\n";
const NOW: i64 = 1_790_000_000_000;

fn reading(at: i64, octets: u64, errors: u64, light: f64) -> Reading {
    Reading { at, in_octets: Some(octets), in_errors: Some(errors), light_in_dbm: Some(light), ..Reading::default() }
}

fn interfaces(readings: &[Reading]) -> Interfaces {
    let mut known = Interfaces::default();
    let rows: Vec<Row> = readings.windows(2).filter_map(|pair| row_between(&pair[0], &pair[1])).collect();
    known.record("border", readings.last().unwrap().clone(), &rows);
    known
}

fn explained(known: &Interfaces, direction: Option<Direction>) -> Finding {
    let mut finding = Finding {
        kind: AlarmKind::Loss,
        direction,
        severity: Health::Warning,
        evidence: "9 of 600 packets lost".into(),
        cause: CauseKind::RandomLoss,
    };
    let segments_of = |direction| match direction {
        Direction::Forward => vec!["geneva out".to_owned(), "ams in".into()],
        Direction::Reverse => vec!["ams out".to_owned(), "geneva in".into()],
    };
    known.explain(&mut finding, &Config::parse(CONFIG).unwrap().interfaces, segments_of, NOW);
    finding
}

#[test]
fn a_row_has_rates_and_counts_and_no_value_after_a_reset() {
    let row = row_between(&reading(0, 1_000, 5, -2.5), &reading(60_000, 76_000, 7, -2.5)).unwrap();
    assert_eq!((row.at, row.values[0], row.values[1], row.values[2]), (0, Some(10_000), None, Some(2)));
    assert_eq!(row.values[6], Some(-2_500));
    let reset = row_between(&reading(0, 1_000, 5, 0.0), &reading(60_000, 10, 5, f64::NAN)).unwrap();
    assert_eq!((reset.values[0], reset.values[2], reset.values[6]), (None, Some(0), None), "a reset is no rate");
    let liar = row_between(&reading(0, 0, 0, 0.0), &reading(1_000, u64::MAX, u64::MAX, 1e9)).unwrap();
    assert_eq!((liar.values[0], liar.values[2], liar.values[6]), (None, None, None));
    assert!(row_between(&reading(5, 0, 0, 0.0), &reading(5, 1, 0, 0.0)).is_none());
    assert!(row_between(&reading(0, 0, 0, 0.0), &reading(2 * 86_400_000, 1, 0, 0.0)).is_none());
}

#[test]
fn new_readings_are_preceded_by_the_last_known_one() {
    let times = |after| fresh((0..5).rev().map(|at| reading(at * 60_000, 0, 0, 0.0)).collect(), after, NOW);
    let at = |after| times(after).unwrap().iter().map(|it| it.at / 60_000).collect::<Vec<_>>();
    assert_eq!((at(-1), at(120_000), at(999_999_999)), (vec![0, 1, 2, 3, 4], vec![2, 3, 4], vec![4]));
    let ahead = fresh(vec![reading(NOW + 86_400_000, 0, 0, 0.0)], 0, NOW).unwrap_err();
    assert!(ahead.contains("ahead by 86400 s"), "{ahead}");
}

#[test]
fn errors_and_fading_light_of_the_segment_explain_loss() {
    let minute = |at: i64, errors, light| reading(NOW - 600_000 + at * 60_000, 0, errors, light);
    let erring = interfaces(&[minute(0, 100, -2.0), minute(1, 142, -2.0)]);
    let finding = explained(&erring, Some(Direction::Reverse));
    assert_eq!(finding.cause, CauseKind::Optics);
    assert!(finding.evidence.contains("border received 42 frames"), "{}", finding.evidence);
    assert_eq!(
        explained(&erring, Some(Direction::Forward)).cause,
        CauseKind::RandomLoss,
        "it receives the other direction"
    );
    assert_eq!(explained(&erring, None).cause, CauseKind::Optics);
    let dim = interfaces(&[minute(0, 0, -2.0), minute(1, 0, -2.1), minute(2, 0, -6.3)]);
    assert!(explained(&dim, None).evidence.contains("fell from -2.1 to -6.3 dBm"), "{:?}", explained(&dim, None));
    let well = interfaces(&[minute(0, 100, -2.0), minute(1, 103, -2.4)]);
    assert_eq!(explained(&well, None).cause, CauseKind::RandomLoss);
    let long_ago = interfaces(&[reading(NOW - 8 * 3_600_000, 0, 0, 0.0), reading(NOW - 7 * 3_600_000, 0, 99, 0.0)]);
    assert_eq!(explained(&long_ago, None).cause, CauseKind::RandomLoss);
}

#[test]
fn utilisation_is_of_the_capacity_and_memory_is_bounded() {
    let config = Config::parse(CONFIG).unwrap();
    let many: Vec<Reading> =
        (0..4_000).map(|at| reading(NOW - 4_000_000 + at * 1_000, at as u64 * 625_000_000, at as u64, 0.0)).collect();
    let known = interfaces(&many);
    assert_eq!(known.0["border"].recent.len(), REMEMBERED_MAX);
    let shown = &known.show(&config.interfaces, NOW)[0];
    assert_eq!((shown.in_utilisation, shown.errors_6h), (Some(0.5), 1_500));
    let mut known = known;
    known.record_error("border", "no route".into());
    assert_eq!(known.show(&config.interfaces, NOW)[0].error.as_deref(), Some("no route"));
    known.retain(&[]);
    assert!(known.0.is_empty() && known.show(&config.interfaces, NOW)[0].at.is_none());
}

#[test]
fn csv_and_json_give_the_same_readings() {
    let csv =
        text::csv(b"time, port, in_octets, light_in_dbm\n2026-11-01T10:00:00Z, et-0, 7,\n1793527260, et-0, 9, -2.5\n")
            .unwrap();
    assert_eq!((csv[0].at, csv[0].in_octets, csv[0].light_in_dbm), (1_793_527_200_000, Some(7), None));
    assert_eq!((csv[1].at - csv[0].at, csv[1].light_in_dbm), (60_000, Some(-2.5)));
    let json = text::json(br#"[{"time": "2026-11-01T10:00:00Z", "in_octets": 7, "port": "et-0"}, {"time": 1793527260, "in_octets": 9, "light_in_dbm": -2.5}]"#);
    assert_eq!(json.unwrap(), csv);
    let site = text::json(
        br#"{"Description": "Network statistics for SITE", "UpdatedLast": "2026-05-09T18:04:43.395714+00:00", "InBytesPerSec": 1000.5,
            "OutBytesPerSec": 2000, "UpdateInterval": "60 seconds", "MonitoredInterfaces": ["rtr-1_Ethernet1/48"]}"#,
    );
    let site = &site.unwrap()[0];
    assert_eq!((site.in_bit_s, site.out_bit_s, site.in_octets), (Some(8_004.0), Some(16_000.0), None));
}

#[test]
fn an_invalid_text_is_refused_with_its_place() {
    let refused = |text: &str| text::csv(text.as_bytes()).unwrap_err();
    assert!(refused("time,in_octets\n2026-11-01T10:00:00Z,1\nyesterday,2\n").contains("line 3"));
    assert!(refused("when,in_octets\n1,2\n").contains("time"));
    assert!(refused("time,out_octets\n1,-5\n").contains("line 2"));
    assert!(refused("time,colour\n1,red\n").contains("none of in_octets"));
    assert!(text::json(b"{}").unwrap_err().contains("a reading"));
    assert!(text::json(br#"{"time": 1e300, "in_octets": 1}"#).is_err());
    let odd = "[[interface]]\nname = \"x\"\nsite = \"s\"\n";
    let config = |more: &str| Config::parse(&format!("{odd}{more}")).unwrap_err().to_string();
    assert!(config("").contains("csv, json, node or snmp"), "{}", config(""));
    assert!(config("csv = \"a\"\njson = \"b\"\n").contains("csv, json, node or snmp"));
    assert!(config("snmp = \"snmp://router\"\n").contains("snmp://HOST[:PORT]/INTERFACE"));
    assert!(config("csv = \"a\"\ncommunity-file = \"c\"\n").contains("belong to snmp"));
    assert!(config("csv = \"a\"\nlink = \"geant\"\n").contains("site or link"));
    assert!(config("csv = \"a\"\nevery = \"1s\"\n").contains("every"));
    assert!(
        Config::parse(&format!("{odd}csv = \"a\"\n").repeat(2)).unwrap_err().to_string().contains("two interfaces")
    );
}

#[test]
fn a_user_of_snmpv3_has_files_for_its_passwords() {
    let parse = |user: &str| {
        let interface = "[[interface]]\nname = \"x\"\nsite = \"s\"\nsnmp = \"snmp://router/1\"\n";
        Config::parse(&format!("{interface}{user}\n"))
    };
    let login = |user: &str| match &parse(user).unwrap().interfaces[0].source {
        CounterSource::Snmp { login, .. } => login.clone(),
        other => panic!("{other:?}"),
    };
    let expected = |auth, privacy| SnmpLogin::User(SnmpUser { name: "w".into(), auth, auth_file: "a".into(), privacy });
    assert_eq!(login(""), SnmpLogin::Community(None));
    assert_eq!(login(r#"user = { name = "w", auth-file = "a" }"#), expected(SnmpDigest::Sha256, None));
    assert_eq!(
        login(r#"user = { name = "w", auth-file = "a", auth = "sha-1", privacy-file = "p" }"#),
        expected(SnmpDigest::Sha1, Some((SnmpCipher::Aes128, "p".into())))
    );
    for (user, part) in [
        (r#"user = { name = "w" }"#, "auth-file"),
        (r#"user = { name = "w", auth-file = "a", auth = "md5" }"#, "md5"),
        (r#"user = { name = "w", auth-file = "a", privacy-file = "p", privacy = "des" }"#, "des"),
        (r#"user = { name = "w", auth-file = "a", privacy = "aes-128" }"#, "privacy-file is missing"),
        (
            r#"user = { name = "w", auth-file = "a", auth = "sha-1", privacy-file = "p", privacy = "aes-256" }"#,
            "shorter than the key",
        ),
        (r#"user = { name = "", auth-file = "a" }"#, "1 to 32 bytes"),
        (r#"user = { name = "w", password = "secret-in-the-file" }"#, "password"),
        ("community-file = \"c\"\nuser = { name = \"w\", auth-file = \"a\" }", "one of them"),
    ] {
        let why = parse(user).unwrap_err().to_string();
        assert!(why.contains(part), "{user}: {why}");
    }
}
