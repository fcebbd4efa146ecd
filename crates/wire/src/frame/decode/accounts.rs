//! Decodes an end's account, the facts of its streams, and addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use model::account::{Account, STAGES, StageTimes};
use model::v1;

use super::{MICROS_MAX, Reader, Result, STREAMS_MAX, WireError, stream_id};

pub(super) fn facts(r: &mut Reader) -> Result<v1::Stream> {
    let id = stream_id(r)?;
    let what = "a stream's fact";
    let mut next = |limit: u64| r.number_max(limit, what);
    let seconds = |micros: u64| micros as f64 / 1e6;
    let mut facts = v1::Stream { id, bytes: next(u64::MAX)?, ..v1::Stream::default() };
    facts.rtt_s = seconds(next(MICROS_MAX)?);
    facts.min_rtt_s = seconds(next(MICROS_MAX)?);
    facts.retransmits = next(u64::MAX)?;
    facts.cwnd_segments = next(u32::MAX.into())? as u32;
    facts.mss_bytes = next(u32::MAX.into())? as u32;
    facts.delivery_rate_bit_s = next(u64::MAX)?;
    facts.receive_window_limited_s = seconds(next(MICROS_MAX)?);
    facts.send_buffer_limited_s = seconds(next(MICROS_MAX)?);
    facts.busy_s = seconds(next(MICROS_MAX)?);
    facts.sent_bytes = next(u64::MAX)?;
    facts.resent_bytes = next(u64::MAX)?;
    facts.window_bytes = next(u64::MAX)?;
    facts.window_scaling = next(1)? == 1;
    facts.congestion = congestion(r)?;
    facts.payload = r.text("a payload's form")?;
    Ok(facts)
}

/// The name of a congestion control: it is shown to people, and may become part of a command in a remedy.
/// Linux has names of 15 letters at most (`TCP_CA_NAME_MAX`).
fn congestion(r: &mut Reader) -> Result<String> {
    let name = r.text("a congestion control")?;
    let fits = name.len() <= 15 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(name) } else { Err(WireError::Invalid("a congestion control")) }
}

pub(super) fn account(r: &mut Reader) -> Result<Account> {
    let what = "an account";
    let small = |r: &mut Reader| Ok(r.number_max(u32::MAX.into(), what)? as u32);
    let spans = |r: &mut Reader| -> Result<[Duration; STAGES]> {
        let mut spans = [Duration::ZERO; STAGES];
        for span in &mut spans {
            *span = Duration::from_micros(r.number_max(MICROS_MAX, what)?);
        }
        Ok(spans)
    };
    let threads = small(r)?;
    let (wall, cpu, longest) = (spans(r)?, spans(r)?, spans(r)?);
    Ok(Account {
        threads,
        spent: StageTimes { wall, cpu, longest, records: r.number(what)? },
        processors: small(r)?,
        busy_permille: r.number_max(1000, what)? as u32,
        receive_buffer_max: r.number(what)?,
        send_buffer_max: r.number(what)?,
        streams: r.number_max(STREAMS_MAX.into(), what)? as u32,
        capacity_bit_s: r.number(what)?,
        clear_loss_ppb: r.number_max(1_000_000_000, what)? as u32,
        share_bit_s: r.number(what)?,
        scales_windows: r.bool(what)?,
        missed: congestion(r)?,
    })
}

/// An address to connect to: a unicast address and a port.
pub(super) fn address(r: &mut Reader) -> Result<SocketAddr> {
    let what = "an address";
    let ip: IpAddr = match r.u8(what)? {
        4 => r.array::<4>(what)?.into(),
        6 => r.array::<16>(what)?.into(),
        _ => return Err(WireError::Invalid(what)),
    };
    let port = r.number_max(u16::MAX.into(), what)? as u16;
    let is_valid = port != 0 && !ip.is_unspecified() && !ip.is_multicast() && ip == ip.to_canonical();
    if is_valid { Ok(SocketAddr::new(ip, port)) } else { Err(WireError::Invalid(what)) }
}
