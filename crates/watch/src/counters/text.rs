//! Readings as text: CSV with a header of names, JSON with the same names, and the site network document of WLCG.

use serde::{Deserialize, Deserializer};

use super::Reading;
use crate::time;

/// The largest number of readings of one text.
const READINGS_MAX: usize = 100_000;
/// The numbers of which a reading needs at least one.
const NUMBERS: &str = "in_octets, out_octets, in_errors, out_errors, discards, fec_uncorrectable, in_bit_s, out_bit_s, light_in_dbm, capacity_bit_s";

/// A reading as it is written; other columns and fields are ignored.
#[derive(Debug, Deserialize)]
struct TextReading {
    #[serde(deserialize_with = "time_of")]
    time: i64,
    in_octets: Option<u64>,
    out_octets: Option<u64>,
    in_errors: Option<u64>,
    out_errors: Option<u64>,
    discards: Option<u64>,
    fec_uncorrectable: Option<u64>,
    in_bit_s: Option<f64>,
    out_bit_s: Option<f64>,
    light_in_dbm: Option<f64>,
    capacity_bit_s: Option<f64>,
}

/// The site network document of WLCG.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SiteNetwork {
    #[serde(deserialize_with = "time_of")]
    updated_last: i64,
    in_bytes_per_sec: f64,
    out_bytes_per_sec: f64,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a reading (an object with `time`), several in an array, or a WLCG site network document"
)]
enum Document {
    Many(Vec<TextReading>),
    Site(SiteNetwork),
    One(Box<TextReading>),
}

/// RFC 3339, or seconds since 1970.
fn time_of<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a time: RFC 3339, or seconds since 1970")]
    enum Time {
        Seconds(f64),
        Text(String),
    }
    let seconds = |seconds: f64| ((0.0..1e11).contains(&seconds)).then_some((seconds * 1e3) as i64);
    let read = match Time::deserialize(from)? {
        Time::Seconds(number) => seconds(number),
        Time::Text(text) => time::parse(text.trim()).or_else(|| text.trim().parse().ok().and_then(seconds)),
    };
    read.ok_or_else(|| serde::de::Error::custom("time is RFC 3339, or seconds since 1970"))
}

impl TextReading {
    fn reading(self) -> Result<Reading, String> {
        let reading = Reading {
            at: self.time,
            in_octets: self.in_octets,
            out_octets: self.out_octets,
            in_errors: self.in_errors,
            out_errors: self.out_errors,
            discards: self.discards,
            fec_uncorrectable: self.fec_uncorrectable,
            in_bit_s: self.in_bit_s,
            out_bit_s: self.out_bit_s,
            light_in_dbm: self.light_in_dbm,
            capacity_bit_s: self.capacity_bit_s,
        };
        if reading == (Reading { at: reading.at, ..Reading::default() }) {
            Err(format!("a reading has none of {NUMBERS}"))
        } else {
            Ok(reading)
        }
    }
}

/// Reads CSV.
///
/// # Errors
/// A line is invalid; the error names it.
pub fn csv(text: &[u8]) -> Result<Vec<Reading>, String> {
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let mut readings = Vec::new();
    for row in rows.deserialize::<TextReading>() {
        let number = readings.len() + 2;
        let row = row.map_err(|error| format!("line {number}: {error}"))?;
        readings.push(row.reading().map_err(|why| format!("line {number}: {why}"))?);
        if readings.len() > READINGS_MAX {
            return Err(format!("more than {READINGS_MAX} readings"));
        }
    }
    Ok(readings)
}

/// Reads JSON.
///
/// # Errors
/// The document is invalid.
pub fn json(text: &[u8]) -> Result<Vec<Reading>, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match document {
        Document::One(one) => Ok(vec![one.reading()?]),
        Document::Many(many) if many.len() > READINGS_MAX => Err(format!("more than {READINGS_MAX} readings")),
        Document::Many(many) => many.into_iter().map(TextReading::reading).collect(),
        Document::Site(site) => Ok(vec![Reading {
            at: site.updated_last,
            in_bit_s: Some(site.in_bytes_per_sec * 8.0),
            out_bit_s: Some(site.out_bytes_per_sec * 8.0),
            ..Reading::default()
        }]),
    }
}
