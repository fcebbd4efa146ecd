//! Parameters and results in JSON. Pure; every received value is bounded.

use serde_json::{Map, Value, json};

/// A client's parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// UDP; else TCP.
    pub udp: bool,
    /// Seconds at the start that do not count.
    pub omit_s: u32,
    /// Seconds of the test; 0 where bytes or blocks bound it.
    pub time_s: u32,
    /// Bytes of the test; 0 where seconds or blocks bound it.
    pub bytes: u64,
    /// Blocks of the test; 0 where seconds or bytes bound it.
    pub blocks: u64,
    /// Streams in each direction.
    pub parallel: u32,
    /// Bytes of a write, or of a datagram's payload; 0 for the default.
    pub block_bytes: u32,
    /// Target rate of each stream; 0 for none.
    pub rate_bit_s: u64,
    /// The server sends.
    pub reverse: bool,
    /// Both send.
    pub both: bool,
    /// Socket buffers; 0 for the kernel's.
    pub window_bytes: u64,
    /// Largest segment; 0 for the path's.
    pub mss_bytes: u32,
    /// Congestion control; none for the host's.
    pub congestion: Option<String>,
    /// Type of service, as in the IP header.
    pub tos: u32,
    /// The kernel's highest sending rate of each stream, bit/s; 0 for no bound.
    pub pacing_bit_s: u64,
    /// The client wants the server's text output with the results.
    pub wants_output: bool,
    /// Datagrams have a number of 64 bits.
    pub wide_numbers: bool,
}

/// Streams that a test may have: stock's own bound.
const PARALLEL_MAX: u64 = 128;
/// Seconds: stock's own bound, a day.
const TIME_MAX: u64 = 86_400;
/// Bytes of one write: stock's own bound.
const BLOCK_MAX: u64 = 1 << 20;
/// Bytes of one datagram's payload.
const DATAGRAM_MAX: u64 = 65_507;

/// A number, signed, unsigned or in floating point; stock writes -1 as 18446744073709551615.
fn number(value: &Value) -> Option<i64> {
    let wrapped = || value.as_u64().map(|number| number as i64);
    let rounded = || value.as_f64().filter(|number| number.is_finite()).map(|number| number as i64);
    value.as_i64().or_else(wrapped).or_else(rounded)
}

/// A count; 0 where it is missing or negative.
fn count(object: &Map<String, Value>, key: &str) -> u64 {
    object.get(key).and_then(number).map_or(0, |number| number.max(0) as u64)
}

fn flag(object: &Map<String, Value>, key: &str) -> bool {
    match object.get(key) {
        Some(Value::Bool(yes)) => *yes,
        Some(value) => number(value).is_some_and(|number| number != 0),
        None => false,
    }
}

fn within(object: &Map<String, Value>, key: &str, most: u64) -> Result<u64, String> {
    let got = count(object, key);
    if got > most { Err(format!("{key} is {got}, and {most} is the most")) } else { Ok(got) }
}

fn object(text: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(text).map_err(|error| format!("not JSON: {error}"))? {
        Value::Object(object) => Ok(object),
        _ => Err("not an object".into()),
    }
}

impl Params {
    /// Reads a client's parameters.
    ///
    /// # Errors
    /// In words, for a log: not an object, a protocol that is not supported (SCTP), a value beyond stock's bounds.
    pub fn parse(text: &[u8]) -> Result<Params, String> {
        let object = object(text)?;
        if flag(&object, "sctp") {
            return Err("SCTP is not served".into());
        }
        if object.contains_key("authtoken") {
            return Err("names and passwords are not served: use a node's own keys".into());
        }
        let udp = flag(&object, "udp");
        if flag(&object, "tcp") == udp {
            return Err("neither TCP nor UDP".into());
        }
        let congestion = object.get("congestion").and_then(Value::as_str).filter(|name| name.len() < 16);
        Ok(Params {
            udp,
            omit_s: within(&object, "omit", 60)? as u32,
            time_s: within(&object, "time", TIME_MAX)? as u32,
            bytes: count(&object, "num"),
            blocks: count(&object, "blockcount"),
            parallel: within(&object, "parallel", PARALLEL_MAX)?.max(1) as u32,
            block_bytes: within(&object, "len", if udp { DATAGRAM_MAX } else { BLOCK_MAX })? as u32,
            rate_bit_s: count(&object, "bandwidth"),
            reverse: flag(&object, "reverse"),
            both: flag(&object, "bidirectional"),
            window_bytes: within(&object, "window", 2 << 30)?,
            mss_bytes: within(&object, "MSS", 65_535)? as u32,
            congestion: congestion.map(str::to_owned),
            tos: within(&object, "TOS", 255)? as u32,
            pacing_bit_s: count(&object, "fqrate"),
            wants_output: flag(&object, "get_server_output"),
            wide_numbers: flag(&object, "udp_counters_64bit"),
        })
    }

    /// The JSON that a client sends.
    pub fn encode(&self) -> Vec<u8> {
        let mut object = json!({
            if self.udp { "udp" } else { "tcp" }: true,
            "omit": self.omit_s,
            "time": self.time_s,
            "num": self.bytes,
            "blockcount": self.blocks,
            "parallel": self.parallel,
            "len": self.block_bytes,
            "pacing_timer": 1000,
            "client_version": "3.12",
        });
        let mut set = |key: &str, value: Value, given: bool| {
            if given {
                object[key] = value;
            }
        };
        set("bandwidth", self.rate_bit_s.into(), self.rate_bit_s > 0);
        set("reverse", true.into(), self.reverse);
        set("bidirectional", true.into(), self.both);
        set("window", self.window_bytes.into(), self.window_bytes > 0);
        set("MSS", self.mss_bytes.into(), self.mss_bytes > 0);
        set("TOS", self.tos.into(), self.tos > 0);
        set("fqrate", self.pacing_bit_s.into(), self.pacing_bit_s > 0);
        set("get_server_output", 1.into(), self.wants_output);
        set("udp_counters_64bit", 1.into(), self.wide_numbers);
        set("congestion", self.congestion.clone().into(), self.congestion.is_some());
        object.to_string().into_bytes()
    }

    /// Bytes that each stream is to send; `u64::MAX` where time bounds the test.
    pub fn quota(&self) -> u64 {
        let parallel = u64::from(self.parallel.max(1));
        match (self.bytes, self.blocks) {
            (0, 0) => u64::MAX,
            (0, blocks) => blocks.saturating_mul(self.block_bytes.max(1).into()).div_ceil(parallel),
            (bytes, _) => bytes.div_ceil(parallel),
        }
    }
}

/// The counters of one stream at one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Its number.
    pub id: u32,
    /// Payload, sent or received.
    pub bytes: u64,
    /// Segments sent again; none where this end does not know.
    pub retransmits: Option<u64>,
    /// Variation of the delay (RFC 1889), UDP.
    pub jitter_s: f64,
    /// Lost datagrams.
    pub lost: i64,
    /// Datagrams sent, or the highest number received.
    pub packets: u64,
    /// Datagrams lost, and received or sent, in the start that does not count.
    pub omitted: Option<(i64, u64)>,
    /// When it began and ended, after the start of the test.
    pub span_s: (f64, f64),
}

/// The results of an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Share of one processor that the program used: all of it, in user mode, in the kernel; per cent.
    pub cpu_percent: (f64, f64, f64),
    /// 1 if its sending streams count retransmissions, 0 if they do not, -1 if it did not send.
    pub has_retransmits: i64,
    /// Its congestion control.
    pub congestion: Option<String>,
    /// Its streams.
    pub streams: Vec<StreamResult>,
    /// The server's text output.
    pub output: Option<String>,
}

impl Results {
    /// Reads an end's results.
    ///
    /// # Errors
    /// In words: not an object, no streams, a value that is not a number.
    pub fn parse(text: &[u8]) -> Result<Results, String> {
        let object = object(text)?;
        let listed = object.get("streams").and_then(Value::as_array).ok_or("no streams")?;
        if listed.len() > 2 * PARALLEL_MAX as usize {
            return Err(format!("{} streams", listed.len()));
        }
        let percent = |key: &str| object.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let output = object.get("server_output_text").and_then(Value::as_str).map(str::to_owned);
        Ok(Results {
            cpu_percent: (percent("cpu_util_total"), percent("cpu_util_user"), percent("cpu_util_system")),
            has_retransmits: object.get("sender_has_retransmits").and_then(number).unwrap_or(-1),
            congestion: object.get("congestion_used").and_then(Value::as_str).map(str::to_owned),
            streams: listed.iter().map(parse_stream).collect::<Result<_, _>>()?,
            output: output.or_else(|| object.get("server_output_json").map(Value::to_string)),
        })
    }

    /// The JSON that an end sends.
    pub fn encode(&self) -> Vec<u8> {
        let streams: Vec<Value> = self.streams.iter().map(encode_stream).collect();
        let mut object = json!({
            "cpu_util_total": self.cpu_percent.0,
            "cpu_util_user": self.cpu_percent.1,
            "cpu_util_system": self.cpu_percent.2,
            "sender_has_retransmits": self.has_retransmits,
            "streams": streams,
        });
        if let Some(name) = &self.congestion {
            object["congestion_used"] = name.as_str().into();
        }
        if let Some(output) = &self.output {
            object["server_output_text"] = output.as_str().into();
        }
        object.to_string().into_bytes()
    }
}

fn encode_stream(stream: &StreamResult) -> Value {
    let mut object = json!({
        "id": stream.id,
        "bytes": stream.bytes,
        "retransmits": stream.retransmits.map_or(-1, |count| count as i64),
        "jitter": stream.jitter_s,
        "errors": stream.lost,
        "packets": stream.packets,
        "start_time": stream.span_s.0,
        "end_time": stream.span_s.1,
    });
    // Newer peers require both or neither.
    if let Some((lost, packets)) = stream.omitted {
        object["omitted_errors"] = lost.into();
        object["omitted_packets"] = packets.into();
    }
    object
}

/// The largest count that a peer may report: no test comes near it, and sums over all streams do not overflow.
const COUNT_MAX: u64 = 1 << 54;

fn parse_stream(value: &Value) -> Result<StreamResult, String> {
    let object = value.as_object().ok_or("a stream that is not an object")?;
    let must = |key: &str| match object.get(key).and_then(number) {
        Some(number) if number.unsigned_abs() > COUNT_MAX => Err(format!("a stream's {key}: {number}")),
        number => number.ok_or(format!("a stream without {key}")),
    };
    let float = |key: &str| object.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let omitted = object.get("omitted_packets").and_then(number).map(|packets| {
        let lost = object.get("omitted_errors").and_then(number).unwrap_or(0);
        (lost, packets.max(0) as u64)
    });
    Ok(StreamResult {
        id: u32::try_from(must("id")?).map_err(|_| "a stream's id")?,
        bytes: u64::try_from(must("bytes")?).map_err(|_| "a stream's bytes")?,
        retransmits: u64::try_from(must("retransmits")?).ok(),
        jitter_s: float("jitter"),
        lost: must("errors")?,
        packets: must("packets")?.max(0) as u64,
        omitted,
        span_s: (float("start_time"), float("end_time")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parameters of the client of Debian 12 (3.12).
    const STOCK: &str = concat!(
        r#"{"tcp":true,"omit":0,"time":2,"num":0,"blockcount":0,"parallel":1,"len":131072,"#,
        r#""pacing_timer":1000,"client_version":"3.12"}"#
    );

    #[test]
    fn parameters_of_a_stock_client_are_read() {
        let params = Params::parse(STOCK.as_bytes()).unwrap();
        let expected = Params { time_s: 2, parallel: 1, block_bytes: 131_072, ..Params::default() };
        assert_eq!((&params, params.quota()), (&expected, u64::MAX));
        let refusal = |text: &str| Params::parse(text.as_bytes()).unwrap_err();
        assert!(refusal("[]").contains("not an object") && refusal("{").contains("not JSON"));
        assert!(refusal(r#"{"sctp":true}"#).contains("SCTP"));
        assert!(refusal(r#"{"tcp":true,"parallel":129}"#).contains("128"));
        assert!(refusal(r#"{"tcp":true,"len":1e300}"#).contains("len"));
        assert!(refusal(r#"{"tcp":true,"authtoken":"x"}"#).contains("keys"));
        assert!(refusal(r#"{"time":1}"#).contains("neither"));
        let shared = Params::parse(br#"{"udp":true,"num":1000,"parallel":3,"len":100,"time":-5}"#).unwrap();
        assert_eq!((shared.quota(), shared.time_s), (334, 0));
    }

    #[test]
    fn stocks_unsigned_minus_one_is_read() {
        let text = concat!(
            r#"{"cpu_util_total":1.5,"cpu_util_user":1,"cpu_util_system":0.5,"#,
            r#""sender_has_retransmits":18446744073709551615,"streams":[{"id":1,"bytes":5,"#,
            r#""retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0}]}"#
        );
        let results = Results::parse(text.as_bytes()).unwrap();
        assert_eq!((results.has_retransmits, results.streams[0].retransmits, results.streams[0].bytes), (-1, None, 5));
        let no_bytes = br#"{"streams":[{"id":1,"retransmits":0,"errors":0,"packets":0}]}"#;
        assert!(Results::parse(no_bytes).unwrap_err().contains("bytes"));
        // A peer's numbers are summed.
        let too_many = br#"{"streams":[{"id":1,"bytes":9223372036854775807,"retransmits":0,"errors":0,"packets":0}]}"#;
        assert!(Results::parse(too_many).unwrap_err().contains("bytes"));
    }

    prop_compose! {
        fn any_params()(
            udp: bool, reverse: bool, both: bool, wants_output: bool, wide_numbers: bool,
            (omit_s, time_s, parallel, block_bytes, tos) in (0u32..60, 0u32..86_400, 1u32..=128, 0u32..65_000, 0u32..256),
            (bytes, blocks, rate_bit_s, window_bytes) in (0u64..1 << 62, 0u64..1 << 40, 0u64..1 << 62, 0u64..1 << 30),
        ) -> Params {
            let congestion = udp.then(|| "bbr".to_owned());
            Params {
                udp, omit_s, time_s, bytes, blocks, parallel, block_bytes, rate_bit_s, reverse, both, window_bytes,
                congestion, tos, wants_output, wide_numbers, ..Params::default()
            }
        }
    }

    proptest! {
        #[test]
        fn parameters_are_read_as_they_were_written(params in any_params()) {
            prop_assert_eq!(Params::parse(&params.encode()), Ok(params));
        }

        #[test]
        fn results_are_read_as_they_were_written(
            (bytes, lost, packets) in (0u64..1 << 54, -5i64..1 << 40, 0u64..1 << 54),
            retransmits in proptest::option::of(0u64..1 << 40),
            omitted in proptest::option::of((-2i64..9, 0u64..9)),
        ) {
            let span_s = (0.0, 2.5);
            let stream = StreamResult { id: 3, bytes, retransmits, jitter_s: 0.5, lost, packets, omitted, span_s };
            let cpu_percent = (2.0, 1.5, 0.5);
            let congestion = Some("cubic".to_owned());
            let results = Results { cpu_percent, has_retransmits: 1, congestion, streams: vec![stream], output: None };
            prop_assert_eq!(Results::parse(&results.encode()), Ok(results));
        }

        /// Unauthenticated peers send these texts.
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}", at in 0usize..100, byte: u8) {
            let _ = (Params::parse(text.as_bytes()), Results::parse(text.as_bytes()));
            let mut bent = STOCK.as_bytes().to_vec();
            bent[at] = byte;
            let _ = Params::parse(&bent);
        }
    }
}
