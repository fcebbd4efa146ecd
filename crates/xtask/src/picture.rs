//! `cargo xtask picture`: draws docs/crates.svg, the crates on their floors and their dependencies, from the manifests.
//!
//! An arrow is left out if other arrows lead to the same crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tidy::arrows::{self, Arrow, FLOORS};

/// The path of the picture, below the root.
pub const FILE: &str = "docs/crates.svg";

const WIDTH: usize = 1360;
const MARGIN: usize = 20;
const LABEL: usize = 80;
const BOX_WIDTH: usize = 100;
const BOX_HEIGHT: usize = 36;
const FLOOR_HEIGHT: usize = 110;

const STYLE: &str = "
text { font: 14px sans-serif; fill: #1f2933; }
.floor { fill: #7b8794; }
rect { fill: #ffffff; stroke: #3e4c59; }
polyline { stroke: #9aa5b1; fill: none; }
marker path { fill: #9aa5b1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .floor { fill: #9aa5b1; }
  rect { fill: #1f2933; stroke: #cbd2d9; }
  polyline { stroke: #7b8794; }
  marker path { fill: #7b8794; }
}
";

/// Writes the picture.
///
/// # Errors
/// The manifests cannot be read, or the file cannot be written.
pub fn write(root: &Path) -> Result<()> {
    fs::write(root.join(FILE), current(root)?).with_context(|| format!("cannot write {FILE}"))
}

/// The picture of the current manifests.
///
/// # Errors
/// The manifests cannot be read.
pub fn current(root: &Path) -> Result<String> {
    let (members, arrows) = arrows::read(root)?;
    Ok(draw(&members, &arrows))
}

/// The upper left corner of a crate's box, in pixels from the left and the top.
type Corner = (usize, usize);

fn draw(members: &[String], arrows: &[Arrow]) -> String {
    let corners = corners(members);
    let height = FLOORS.len() * FLOOR_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">The crates of Longhaul by floor; an arrow leads to a crate that is linked</title>\n\
         <style>{STYLE}</style>\n\
         <marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
         <path d=\"M0 0 L8 4 L0 8 Z\"/></marker>\n"
    );
    for arrow in arrows.iter().filter(|arrow| !arrow.dev && !is_implied(arrows, arrow)) {
        let (Some(from), Some(to)) = (corners.get(arrow.from.as_str()), corners.get(arrow.to.as_str())) else {
            continue;
        };
        let points = route(&corners, *from, *to).iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ");
        let _ = writeln!(svg, "<polyline points=\"{points}\" marker-end=\"url(#head)\"/>");
    }
    for floor in 0..FLOORS.len() {
        let y = top(floor) + BOX_HEIGHT / 2 + 5;
        let _ = writeln!(svg, "<text class=\"floor\" x=\"{MARGIN}\" y=\"{y}\">floor {floor}</text>");
    }
    for (name, (x, y)) in &corners {
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>");
        let (middle, baseline) = (x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2 + 5);
        let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{name}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn top(floor: usize) -> usize {
    (FLOORS.len() - 1 - floor) * FLOOR_HEIGHT + FLOOR_HEIGHT / 3
}

/// The points of an arrow from the bottom of one box to the top of another, through gaps between the boxes of the floors between them.
fn route(corners: &BTreeMap<&str, Corner>, from: Corner, to: Corner) -> Vec<Corner> {
    let begin = (from.0 + BOX_WIDTH / 2, from.1 + BOX_HEIGHT);
    let end = (to.0 + BOX_WIDTH / 2, to.1);
    let mut points = vec![begin];
    let is_between = |y: &usize| (from.1 + 1..to.1).contains(y) && corners.values().any(|corner| corner.1 == *y);
    for y in (0..FLOORS.len()).rev().map(top).filter(is_between) {
        let share = (y - begin.1) as f64 / (end.1 - begin.1) as f64;
        let straight = begin.0 as f64 + share * (end.0 as f64 - begin.0 as f64);
        let gap = gaps(corners, y).into_iter().min_by_key(|gap| gap.abs_diff(straight as usize)).unwrap_or(begin.0);
        points.extend([(gap, y), (gap, y + BOX_HEIGHT)]);
    }
    points.push(end);
    points
}

/// The horizontal positions of the gaps of a floor: between its boxes, before the first and after the last.
fn gaps(corners: &BTreeMap<&str, Corner>, y: usize) -> Vec<usize> {
    let mut lefts: Vec<usize> = corners.values().filter(|corner| corner.1 == y).map(|corner| corner.0).collect();
    lefts.sort_unstable();
    let between = lefts.windows(2).map(|pair| (pair[0] + BOX_WIDTH + pair[1]) / 2);
    let outside = [lefts[0] - BOX_WIDTH / 4, lefts[lefts.len() - 1] + BOX_WIDTH + BOX_WIDTH / 4];
    between.chain(outside).collect()
}

/// The corners of all boxes. Those of a floor are at equal distances.
fn corners(members: &[String]) -> BTreeMap<&'static str, Corner> {
    let mut corners = BTreeMap::new();
    for (floor, crates) in FLOORS.iter().enumerate() {
        let present: Vec<&str> =
            crates.iter().copied().filter(|crate_name| members.iter().any(|member| member == crate_name)).collect();
        let step = (WIDTH - LABEL - MARGIN) / present.len().max(1);
        for (at, crate_name) in present.into_iter().enumerate() {
            corners.insert(crate_name, (LABEL + at * step + step.saturating_sub(BOX_WIDTH) / 2, top(floor)));
        }
    }
    corners
}

/// Whether another dependency of the same crate leads to the same target.
fn is_implied(arrows: &[Arrow], arrow: &Arrow) -> bool {
    let others = arrows.iter().filter(|other| !other.dev && other.from == arrow.from && other.to != arrow.to);
    others.into_iter().any(|other| arrows::reaches(arrows, &other.to, &arrow.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str, dev: bool) -> Arrow {
        Arrow { from: from.into(), to: to.into(), dev }
    }

    #[test]
    fn an_arrow_that_others_imply_is_left_out() {
        let members = ["model", "wire", "engine"].map(str::to_owned);
        let arrows = [arrow("wire", "model", false), arrow("engine", "wire", false), arrow("engine", "model", false)];
        assert_eq!(draw(&members, &arrows).matches("<polyline").count(), 2);
        let for_tests = [arrow("wire", "model", false), arrow("model", "wire", true)];
        assert_eq!(draw(&members, &for_tests).matches("<polyline").count(), 1);
    }

    #[test]
    fn every_crate_has_a_box_of_its_own() {
        let members: Vec<String> =
            FLOORS.iter().flat_map(|crates| crates.iter()).map(|crate_name| (*crate_name).to_owned()).collect();
        let corners = corners(&members);
        assert_eq!(corners.len(), members.len());
        for (name, (x, y)) in &corners {
            assert!(x + BOX_WIDTH <= WIDTH, "{name} ends right of the picture");
            let beside =
                corners.iter().filter(|(other, at)| *other != name && at.1 == *y && at.0.abs_diff(*x) < BOX_WIDTH);
            assert_eq!(beside.count(), 0, "{name} overlaps another crate");
        }
    }
}
