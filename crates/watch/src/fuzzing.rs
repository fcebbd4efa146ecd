//! The parsers of bytes from other hosts, as plain functions: `make test` runs them as property tests, and `make fuzz` guided by coverage.

use crate::archive::chunk::unpack;
use crate::archive::columns::LATENCY;
use crate::config::Config;

/// A template of perfSONAR: the result of an import is a valid configuration.
pub fn psconfig(bytes: &[u8]) {
    if let Ok(imported) = crate::psconfig::import(&String::from_utf8_lossy(bytes)) {
        assert!(Config::parse(&imported.toml).is_ok(), "{}", imported.toml);
    }
}

/// A record of an archiver.
pub fn record(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice(bytes) else { return };
    if let Ok(record) = crate::records::read(&Config::default(), &value) {
        assert_eq!(record.row.values.len(), record.key.columns().len());
    }
}

/// Counters of an interface, as CSV and as JSON.
pub fn counters(bytes: &[u8]) {
    use crate::counters::{fresh, row_between, text};
    for readings in [text::csv(bytes), text::json(bytes)].into_iter().flatten() {
        let Ok(fresh) = fresh(readings, 0, i64::MAX) else { continue };
        let _ = fresh.windows(2).filter_map(|pair| row_between(&pair[0], &pair[1])).count();
    }
}

/// A day of the archive.
pub fn day(bytes: &[u8]) {
    if let Ok(rows) = unpack(LATENCY, bytes) {
        assert!(rows.iter().all(|row| row.values.len() == LATENCY.len()));
    }
}

/// A configuration.
pub fn configuration(bytes: &[u8]) {
    let _ = Config::parse(&String::from_utf8_lossy(bytes)).and_then(crate::state::WatchPlan::of);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    const WORDS: [&str; 14] = [
        "[[group]]\n",
        "[node.a]\n",
        "address=\"a\"\n",
        "mode=\"pairs\"\n",
        "pairs=[[\"a\",\"a\"]]\n",
        "latency={rate=1e300}\n",
        "{\"test\":{",
        "\"type\":",
        "\"rtt\",",
        "}}",
        "\"result\":{\"min\":",
        "\"PT9999999999999999999S\"",
        "1e999",
        "\"schedule\":{\"start\":\"2026-11-01T10:00:00Z\"}",
    ];

    proptest! {
        #[test]
        fn parsers_take_any_bytes(bytes in vec(any::<u8>(), 0..300)) {
            super::psconfig(&bytes);
            super::record(&bytes);
            super::counters(&bytes);
            super::day(&bytes);
            super::day(&[&[2u8][..], &bytes].concat());
            super::configuration(&bytes);
        }

        #[test]
        fn parsers_take_words_in_any_order(words in vec(prop::sample::select(WORDS.to_vec()), 0..12)) {
            let text = words.concat();
            super::psconfig(text.as_bytes());
            super::record(text.as_bytes());
            super::configuration(text.as_bytes());
        }

        #[test]
        fn counters_take_any_numbers(rows in vec((any::<f64>(), any::<u64>(), any::<f64>()), 1..6)) {
            let line = |(at, octets, light): &(f64, u64, f64)| format!("{at},{octets},{light}\n");
            let text: String = rows.iter().map(line).collect();
            super::counters(format!("time,in_octets,light_in_dbm\n{text}").as_bytes());
        }

        #[test]
        fn records_take_any_numbers(a in any::<f64>(), b in any::<i64>(), c in any::<u64>(), kind in prop::sample::select(vec!["throughput", "latency", "rtt", "trace"])) {
            let number = |x: f64| if x.is_finite() { x.to_string() } else { "null".into() };
            let text = format!(
                "{{\"test\":{{\"type\":\"{kind}\",\"spec\":{{\"source\":\"a\",\"dest\":\"b\"}}}},\"schedule\":{{\"start\":\"2026-11-01T10:00:00Z\",\"duration\":{0}}},\
                 \"result\":{{\"packets-sent\":{1},\"packets-lost\":{2},\"loss\":{0},\"min\":{0},\"max\":{1},\"sent\":{2},\"mss\":{0},\
                 \"histogram-latency\":{{\"{0}\":{2},\"7\":{1}}},\"summary\":{{\"throughput-bits\":{0},\"throughput-bytes\":{2},\"retransmits\":{1},\"rtt\":{0}}},\"paths\":[[{{\"ip\":7}}]]}}}}",
                number(a), b, c
            );
            super::record(text.as_bytes());
        }
    }
}
