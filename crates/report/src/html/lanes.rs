//! A chart with one lane for each of several states, which shows the times of each. Labels, not colours, name the lanes.

use std::fmt::Write as _;

use super::brief;
use super::plot::{Frame, across, foot, n};
use super::scale::Scale;

const LEFT: f64 = 150.0;
const TOP: f64 = 6.0;
const LANE: f64 = 20.0;
const BOTTOM: f64 = 36.0;

/// One lane of the chart.
pub struct ChartLane {
    /// The name of the state.
    pub name: String,
    /// The style of its blocks, `f0` to `f7`.
    pub class: &'static str,
    /// The times of the state: from, to, in order.
    pub blocks: Vec<(f64, f64)>,
}

/// The whole figure; `numbers` is markup that stands below it.
pub fn lanes(id: &str, title: &str, about: &str, x: &Scale, lanes: &[ChartLane], numbers: &str) -> String {
    let bottom = TOP + lanes.len() as f64 * LANE;
    let mut out = String::new();
    foot(&mut out, x, LEFT, TOP, bottom);
    for (at, lane) in lanes.iter().enumerate() {
        let top = TOP + at as f64 * LANE;
        let left = n(LEFT - 6.0);
        let middle = n(top + 14.0);
        let _ = write!(out, "<text x=\"{left}\" y=\"{middle}\" text-anchor=\"end\">{}</text>", brief(&lane.name));
        let mut path = String::new();
        for (from, to) in &lane.blocks {
            let from = across(x, *from, LEFT);
            let to = across(x, *to, LEFT);
            // A block of no length is still visible.
            let _ = write!(
                path,
                "M{} {}H{}V{}H{}Z",
                n(from),
                n(top + 3.0),
                n(to.max(from + 0.6)),
                n(top + LANE - 3.0),
                n(from)
            );
        }
        let _ = write!(out, "<path class=\"{}\" d=\"{path}\"/>", lane.class);
    }
    Frame { id, title, about, height: bottom + BOTTOM }.figure(&out, numbers)
}

#[cfg(test)]
mod tests {
    use super::super::tests::well_formed;
    use super::*;

    #[test]
    fn blocks_are_drawn_in_their_lanes() {
        let lane =
            |name: &str, blocks: &[(f64, f64)]| ChartLane { name: name.into(), class: "f2", blocks: blocks.into() };
        let all = [lane("the network", &[(0.0, 5.0), (7.5, 7.5)]), lane("<i>", &[])];
        let figure = lanes("x", "What limited", "By lanes", &Scale::seconds(10.0), &all, "<p>below</p>");
        // From 150 to 630; the first lane from 9 to 23.
        assert!(figure.contains("d=\"M150 9H390V23H150ZM510 9H510.6V23H510Z\""), "{figure}");
        assert!(figure.contains("viewBox=\"0 0 640 82\"") && figure.contains("&lt;i&gt;") && figure.contains("below"));
        well_formed(&figure);
    }
}
