//! What held a job back, from the time its threads spent and what the kernel says about its streams.

use model::v1::Limit;

use crate::session::Report;

/// The evidence: shares of the stream threads' time.
struct Shares {
    storage: f64,
    compute: f64,
    socket: f64,
    idle: f64,
}

fn shares(report: &Report) -> Option<Shares> {
    let sum = |of: fn(&crate::job::Effort) -> std::time::Duration| -> f64 {
        report.efforts.iter().map(|e| of(e).as_secs_f64()).sum()
    };
    let (storage, compute, socket, idle) = (sum(|e| e.storage), sum(|e| e.compute), sum(|e| e.socket), sum(|e| e.idle));
    let total = storage + compute + socket + idle;
    (total > 0.0).then(|| Shares {
        storage: storage / total,
        compute: compute / total,
        socket: socket / total,
        idle: idle / total,
    })
}

/// The limiting part of a finished job. `pushing` tells which end these threads were; `capped` that a limit was set.
pub fn of(report: &Report, pushing: bool, capped: bool) -> Limit {
    let limit = |part: &str, evidence: String| Limit { part: part.into(), evidence };
    let Some(s) = shares(report) else {
        if report.totals.files == 0 {
            return limit("unknown", "no stream carried anything".into());
        }
        return limit("latency", "all of it went on the control connection, within a few round trips".into());
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let all = format!(
        "stream threads here: storage {}, checksums and encryption {}, network {}, waiting for work {}",
        percent(s.storage),
        percent(s.compute),
        percent(s.socket),
        percent(s.idle)
    );
    let busy: f64 = report.streams.iter().map(|f| f.busy_s).sum();
    let window: f64 = report.streams.iter().map(|f| f.receive_window_limited_s).sum();
    let (near, near_cpu, far) =
        if pushing { ("source", "sender_cpu", "target") } else { ("target", "receiver_cpu", "source") };
    let most = s.storage.max(s.compute).max(s.socket).max(s.idle);
    let part = match most {
        _ if most == s.storage => near,
        _ if most == s.compute => near_cpu,
        _ if most == s.idle => "latency",
        _ if capped => "cap",
        // The sender's kernel was held back by the receiver's window: the far end does not take it in.
        _ if pushing && window > busy / 2.0 => far,
        _ => "network",
    };
    let window = if busy > 0.0 {
        format!("; receive window full {} of the time", percent(window / busy))
    } else {
        String::new()
    };
    limit(part, all + &window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Effort;
    use std::time::Duration;

    fn report(storage: u64, compute: u64, socket: u64, window: f64) -> Report {
        let s = Duration::from_secs;
        let effort = Effort { storage: s(storage), compute: s(compute), socket: s(socket), idle: s(0) };
        let facts = model::v1::Stream { busy_s: 10.0, receive_window_limited_s: window, ..Default::default() };
        Report { efforts: vec![effort], streams: vec![facts], ..Report::default() }
    }

    #[test]
    fn the_largest_share_decides() {
        assert_eq!(of(&report(8, 1, 1, 0.0), true, false).part, "source");
        assert_eq!(of(&report(8, 1, 1, 0.0), false, false).part, "target");
        assert_eq!(of(&report(1, 8, 1, 0.0), true, false).part, "sender_cpu");
        assert_eq!(of(&report(1, 1, 8, 0.0), true, false).part, "network");
        assert_eq!(of(&report(1, 1, 8, 9.0), true, false).part, "target");
        assert_eq!(of(&report(1, 1, 8, 0.0), true, true).part, "cap");
        assert_eq!(of(&Report::default(), true, false).part, "unknown");
        let mut small = Report::default();
        small.totals.files = 1;
        assert_eq!(of(&small, true, false).part, "latency");
    }
}
