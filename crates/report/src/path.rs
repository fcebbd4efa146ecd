//! All tests of a path as one page: the causes first, then the measurements.

use std::fmt::Write as _;

use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::probe::all::{Cause, Segment, Support};
use model::v1::probe::latency::{Bucket, Latency};
use model::v1::probe::tcp::{Interval, Report};

use crate::html::{self, Plot, Scale, text};

/// A cause in a few words: kind, direction, place.
pub fn headline(cause: &Cause) -> String {
    let kind = format!("{:?}", cause.kind);
    let spaced = kind.char_indices().flat_map(|(at, c)| {
        let gap = (at > 0 && c.is_uppercase()).then_some(' ');
        gap.into_iter().chain(if at > 0 { c.to_lowercase().next() } else { Some(c) })
    });
    let direction = match cause.direction {
        Some(Direction::Forward) => ", forward",
        Some(Direction::Reverse) => ", reverse",
        None => "",
    };
    let place = match &cause.segment {
        Segment::NearHost => ", at this host".to_owned(),
        Segment::FarHost => ", at the other host".to_owned(),
        Segment::Network => ", in the network".to_owned(),
        Segment::Hop { ttl, address } => format!(", at or before hop {ttl} ({address})"),
    };
    format!("{}{direction}{place}", spaced.collect::<String>())
}

/// Writes the page of all tests of a path.
pub fn page(target: &str, support: &Support) -> String {
    let mut out = format!("<h1>Path to {}</h1>", text(target));
    causes(&mut out, support);
    let found = &support.findings;
    for (direction, name) in [(Direction::Forward, "TCP forward"), (Direction::Reverse, "TCP reverse")] {
        if let Some(report) = found.tcp.of(direction) {
            tcp(&mut out, name, direction, report);
        }
    }
    for (id, name, latency) in
        [("alone", "Round trips alone", &found.latency), ("loaded", "Round trips beside TCP", &found.loaded)]
    {
        if let Some(latency) = latency {
            histogram(&mut out, id, name, latency);
        }
    }
    datagrams(&mut out, support);
    routes(&mut out, support);
    hosts(&mut out, support);
    for why in &found.left_out {
        let _ = write!(out, "<p>Left out: {}</p>", text(why));
    }
    html::page(&format!("Path to {target}"), &out)
}

fn causes(out: &mut String, support: &Support) {
    if support.causes.is_empty() {
        out.push_str("<div class=\"well\"><p>Nothing is wrong, as far as these tests can see.</p></div>");
    }
    for cause in &support.causes {
        let head = text(&headline(cause));
        let evidence = text(&cause.evidence);
        let remedy = text(&cause.remedy);
        let _ =
            write!(out, "<div class=\"cause\"><h3>{head}</h3><p>{evidence}</p><p><b>Remedy:</b> {remedy}</p></div>");
    }
}

fn tcp(out: &mut String, name: &str, direction: Direction, report: &Report) {
    let Some(result) = report.directions.first() else { return };
    let _ = write!(out, "<h2>{name}: {}</h2><p>Limited by {}.</p>", BitRate(result.rate_bit_s), text(&result.limit));
    let intervals = if direction == Direction::Forward { &report.far_intervals } else { &report.intervals };
    let rate = |interval: &Interval| interval.flows.iter().map(|flow| flow.rate_bit_s as f64).sum::<f64>();
    let id = if direction == Direction::Forward { "tcp-forward" } else { "tcp-reverse" };
    let points: Vec<(f64, f64)> = intervals.iter().map(|i| (i.end_s, rate(i))).collect();
    line(out, (id, "Rate", "What arrived, interval by interval."), &points, Scale::seconds, Scale::rate);
    out.push_str("<table><tr><th>expected at most</th><th>by</th><th>evidence</th></tr>");
    for term in &result.expected {
        let rate = BitRate(term.rate_bit_s);
        let name = term.name.replace('_', " ");
        let evidence = text(&term.evidence);
        let _ = write!(out, "<tr><td>{rate}</td><td>{name}</td><td>{evidence}</td></tr>");
    }
    out.push_str("</table>");
}

fn histogram(out: &mut String, id: &str, name: &str, latency: &Latency) {
    let Some(rtt) = latency.round_trip else { return };
    let median = rtt.median_s * 1e3;
    let p99 = rtt.p99_s * 1e3;
    let lost = latency.packets.lost;
    let sent = latency.packets.sent;
    let _ = write!(out, "<h2>{name}: {median:.2} ms</h2><p>99 % below {p99:.2} ms; {lost} of {sent} packets lost.</p>");
    let point = |bucket: &Bucket| ((bucket.from_s + bucket.to_s) * 500.0, bucket.count as f64);
    let points: Vec<(f64, f64)> = latency.histogram.iter().map(point).collect();
    let x = |most| Scale::plain(most, "ms");
    let y = |most| Scale::plain(most, "packets");
    line(out, (id, "How often", "How many packets took how long, to the other end and back."), &points, x, y);
}

fn datagrams(out: &mut String, support: &Support) {
    let found = &support.findings;
    out.push_str("<h2>Datagrams</h2><table><tr><th></th><th>sent</th><th>lost in the network</th><th>in a host</th><th>out of order</th><th>twice</th></tr>");
    for (name, directions) in [("small, paced", &found.datagrams), ("bursts", &found.bursts)] {
        for (direction, point) in directions.each() {
            let Some(p) = point else { continue };
            let direction = direction.word();
            let _ = write!(
                out,
                "<tr><td>{name}, {direction}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                p.sent.datagrams, p.lost_in_network, p.lost_in_host, p.received.reordered, p.received.duplicates
            );
        }
    }
    out.push_str("</table>");
}

fn routes(out: &mut String, support: &Support) {
    let Some(routes) = &support.findings.routes else { return };
    out.push_str("<h2>Routes</h2>");
    for (name, route) in [("forward", Some(&routes.forward)), ("reverse", routes.reverse.as_ref())] {
        let Some(route) = route else { continue };
        let mtu = route.mtu.as_ref().map_or(String::new(), |mtu| format!(", packets of up to {} bytes", mtu.mtu_bytes));
        let _ = write!(out, "<h3>{name}{mtu}</h3><table><tr><th>hop</th><th>router</th><th>least round trip</th></tr>");
        for hop in &route.path.hops {
            let routers: Vec<String> = hop.routers.iter().map(|router| text(&router.address)).collect();
            let rtt = hop.rtt_min_s.map_or("–".to_owned(), |rtt| format!("{:.2} ms", rtt * 1e3));
            let _ = write!(out, "<tr><td>{}</td><td>{}</td><td>{rtt}</td></tr>", hop.ttl, routers.join(" or "));
        }
        out.push_str("</table>");
    }
    for difference in &routes.asymmetries {
        let _ = write!(out, "<p>{}</p>", text(&difference.text));
    }
}

fn hosts(out: &mut String, support: &Support) {
    let far =
        support.findings.tcp.forward.as_ref().or(support.findings.tcp.reverse.as_ref()).map(|report| &report.far.host);
    out.push_str("<h2>Hosts</h2>");
    for (name, host) in [("this host", Some(&support.near)), ("the other host", far)] {
        let Some(host) = host else { continue };
        let busy = host.busy * 100.0;
        let others = host.others() * 100.0;
        let steal = host.steal * 100.0;
        let _ = write!(
            out,
            "<h3>{name}</h3><p>{}, Linux {}, {} processors, {busy:.0} % busy ({others:.0} % by others, {steal:.0} % taken by a \
             hypervisor)</p><table>",
            text(&host.software),
            text(&host.kernel),
            host.processors
        );
        for (key, value) in &host.settings {
            let _ = write!(out, "<tr><td>{}</td><td>{}</td></tr>", text(key), text(value));
        }
        out.push_str("</table>");
    }
}

/// Draws points joined by a line, from 0 upwards, with the id, title and description of the plot, and the scales of its axes.
fn line(
    out: &mut String,
    (id, title, about): (&str, &str, &str),
    points: &[(f64, f64)],
    x: fn(f64) -> Scale,
    y: fn(f64) -> Scale,
) {
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let x_most = most(|p| p.0);
    let y_most = most(|p| p.1);
    if points.len() < 2 || x_most <= 0.0 || y_most <= 0.0 {
        return;
    }
    let mut plot = Plot::new(id, title, about, x(x_most), y(y_most));
    plot.curve(0, points);
    *out += &plot.figure("");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::tests::well_formed;

    #[test]
    fn markup_in_names_is_escaped() {
        let page = page("<script>alert(1)</script>", &Support::default());
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert!(page.contains("Nothing is wrong") && page.trim_end().ends_with("</html>"));
        well_formed(&page);
    }

    #[test]
    fn a_plot_needs_two_points() {
        let mut out = String::new();
        let mut draw = |points: &[(f64, f64)]| {
            line(&mut out, ("x", "Rate", "All of it."), points, Scale::seconds, Scale::rate);
            out.clone()
        };
        assert!(draw(&[(1.0, 1e6)]).is_empty());
        let plot = draw(&[(1.0, 1e6), (2.0, 3e6)]);
        assert!(plot.contains("<polyline") && plot.contains(">Mbit/s<"), "{plot}");
        well_formed(&plot);
    }
}
