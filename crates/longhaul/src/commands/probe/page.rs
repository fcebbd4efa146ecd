//! The page of `probe all --html`: one file, no script, nothing from elsewhere.

use std::fmt::Write as _;

use model::units::BitRate;
use model::v1::probe::all::{Support, Way};
use model::v1::probe::latency::{Bucket, Latency};
use model::v1::probe::tcp::{Interval, Report};

use super::all::headline;
use crate::html::text;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #ddd;padding:.25rem .8rem;text-align:left}\
svg{width:100%;height:auto;background:#fafafa;border:1px solid #eee}.cause{border-left:4px solid #c33;padding:.1rem 1rem;\
margin:1rem 0}.well{border-left:4px solid #393;padding:.1rem 1rem}small{color:#666}";

/// Width, height and margin of a plot.
const PLOT: (f64, f64, f64) = (800.0, 220.0, 46.0);

/// The whole page.
pub fn page(target: &str, support: &Support) -> String {
    let mut out = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    let _ = write!(out, "<title>Path to {0}</title><style>{STYLE}</style><h1>Path to {0}</h1>", text(target));
    causes(&mut out, support);
    let found = &support.findings;
    for (way, name) in [(Way::There, "TCP there"), (Way::Back, "TCP back")] {
        if let Some(report) = found.tcp.of(way) {
            tcp(&mut out, name, way, report);
        }
    }
    for (name, latency) in [("Round trips alone", &found.latency), ("Round trips beside TCP", &found.loaded)] {
        if let Some(latency) = latency {
            histogram(&mut out, name, latency);
        }
    }
    datagrams(&mut out, support);
    routes(&mut out, support);
    hosts(&mut out, support);
    for why in &found.left_out {
        let _ = write!(out, "<p>Left out: {}</p>", text(why));
    }
    out.push_str("</html>\n");
    out
}

fn causes(out: &mut String, support: &Support) {
    if support.causes.is_empty() {
        out.push_str("<div class=\"well\"><p>Nothing is wrong, as far as these tests can see.</p></div>");
    }
    for cause in &support.causes {
        let (head, evidence, remedy) = (text(&headline(cause)), text(&cause.evidence), text(&cause.remedy));
        let _ =
            write!(out, "<div class=\"cause\"><h3>{head}</h3><p>{evidence}</p><p><b>Remedy:</b> {remedy}</p></div>");
    }
}

fn tcp(out: &mut String, name: &str, way: Way, report: &Report) {
    let Some(result) = report.ways.first() else { return };
    let _ = write!(out, "<h2>{name}: {}</h2><p>Limited by {}.</p>", BitRate(result.rate_bit_s), text(&result.limit));
    let intervals = if way == Way::There { &report.far_intervals } else { &report.intervals };
    let rate = |interval: &Interval| interval.flows.iter().map(|flow| flow.rate_bit_s).sum::<u64>() as f64 / 1e6;
    let points: Vec<(f64, f64)> = intervals.iter().map(|i| (i.end_s, rate(i))).collect();
    line(out, &points, "s", "Mbit/s");
    out.push_str("<table><tr><th>expected at most</th><th>by</th><th>evidence</th></tr>");
    for term in &result.expected {
        let (rate, name, evidence) = (BitRate(term.rate_bit_s), term.name.replace('_', " "), text(&term.evidence));
        let _ = write!(out, "<tr><td>{rate}</td><td>{name}</td><td>{evidence}</td></tr>");
    }
    out.push_str("</table>");
}

fn histogram(out: &mut String, name: &str, latency: &Latency) {
    let Some(rtt) = latency.round_trip else { return };
    let (median, p99, lost, sent) = (rtt.median_s * 1e3, rtt.p99_s * 1e3, latency.packets.lost, latency.packets.sent);
    let _ = write!(out, "<h2>{name}: {median:.2} ms</h2><p>99 % below {p99:.2} ms; {lost} of {sent} packets lost.</p>");
    let point = |bucket: &Bucket| ((bucket.from_s + bucket.to_s) * 500.0, bucket.count as f64);
    let points: Vec<(f64, f64)> = latency.histogram.iter().map(point).collect();
    line(out, &points, "ms", "packets");
}

fn datagrams(out: &mut String, support: &Support) {
    let found = &support.findings;
    out.push_str("<h2>Datagrams</h2><table><tr><th></th><th>sent</th><th>lost in the network</th><th>in a host</th><th>out of order</th><th>twice</th></tr>");
    for (name, ways) in [("small, paced", &found.datagrams), ("bursts", &found.bursts)] {
        for (way, point) in ways.each() {
            let Some(p) = point else { continue };
            let way = if way == Way::There { "there" } else { "back" };
            let _ = write!(
                out,
                "<tr><td>{name}, {way}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                p.sent.datagrams, p.lost_in_network, p.lost_in_host, p.received.reordered, p.received.duplicates
            );
        }
    }
    out.push_str("</table>");
}

fn routes(out: &mut String, support: &Support) {
    let Some(routes) = &support.findings.routes else { return };
    out.push_str("<h2>Routes</h2>");
    for (name, route) in [("there", Some(&routes.forward)), ("back", routes.reverse.as_ref())] {
        let Some(route) = route else { continue };
        let mtu = route.mtu.as_ref().map_or(String::new(), |mtu| format!(", packets of up to {} bytes", mtu.mtu_bytes));
        let _ = write!(out, "<h3>{name}{mtu}</h3><table><tr><th>hop</th><th>router</th><th>least round trip</th></tr>");
        for hop in &route.path.hops {
            let who: Vec<String> = hop.routers.iter().map(|router| text(&router.address)).collect();
            let rtt = hop.rtt_min_s.map_or("–".to_owned(), |rtt| format!("{:.2} ms", rtt * 1e3));
            let _ = write!(out, "<tr><td>{}</td><td>{}</td><td>{rtt}</td></tr>", hop.ttl, who.join(" or "));
        }
        out.push_str("</table>");
    }
    for difference in &routes.asymmetries {
        let _ = write!(out, "<p>{}</p>", text(&difference.text));
    }
}

fn hosts(out: &mut String, support: &Support) {
    let far = support.findings.tcp.there.as_ref().or(support.findings.tcp.back.as_ref()).map(|report| &report.far.host);
    out.push_str("<h2>Hosts</h2>");
    for (name, host) in [("this host", Some(&support.near)), ("the other host", far)] {
        let Some(host) = host else { continue };
        let (busy, others, steal) = (host.busy * 100.0, host.others() * 100.0, host.steal * 100.0);
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

/// A plot of points joined by a line, from 0 upwards.
fn line(out: &mut String, points: &[(f64, f64)], x_unit: &str, y_unit: &str) {
    let (width, height, margin) = PLOT;
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let (x_most, y_most) = (most(|p| p.0), most(|p| p.1));
    if points.len() < 2 || x_most <= 0.0 || y_most <= 0.0 {
        return;
    }
    let place = |(x, y): &(f64, f64)| {
        let x = margin + x / x_most * (width - 2.0 * margin);
        let y = height - margin - y / y_most * (height - 2.0 * margin);
        format!("{x:.1},{y:.1}")
    };
    let path: Vec<String> = points.iter().map(place).collect();
    let (left, bottom, right) = (margin, height - margin, width - margin);
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\"><polyline fill=\"none\" stroke=\"#27c\" stroke-width=\"2\" \
         points=\"{}\"/><path d=\"M{left} {margin}V{bottom}H{right}\" fill=\"none\" stroke=\"#999\"/>\
         <text x=\"{left}\" y=\"{}\" font-size=\"13\">{y_most:.0} {y_unit}</text>\
         <text x=\"{right}\" y=\"{}\" font-size=\"13\" text-anchor=\"end\">{x_most:.1} {x_unit}</text></svg>",
        path.join(" "),
        margin - 8.0,
        bottom + 20.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        let page = page("<script>alert(1)</script>", &Support::default());
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert!(page.contains("Nothing is wrong") && page.trim_end().ends_with("</html>"));
    }

    #[test]
    fn a_plot_needs_two_points() {
        let mut out = String::new();
        line(&mut out, &[(1.0, 1.0)], "s", "Mbit/s");
        assert!(out.is_empty());
        line(&mut out, &[(1.0, 1.0), (2.0, 3.0)], "s", "Mbit/s");
        assert!(out.contains("<polyline") && out.contains("3 Mbit/s"));
    }
}
