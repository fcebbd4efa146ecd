//! Joins the files of one transfer. A series joins the receipt of the transfer that it names. Series that name none join the
//! remaining receipts by position, if there are as many.

use std::collections::HashMap;

use model::v1::Receipt;

use crate::read::{Found, Point};
use crate::series::Series;
use crate::story::Story;
use crate::{receipt, tcp, transfer};

/// A receipt, and what joins it.
struct Ended {
    files: Vec<String>,
    receipt: Receipt,
    points: Vec<Point>,
    series: Option<Series>,
    is_guessed: bool,
}

/// What becomes a story.
enum Piece {
    Ended(Box<Ended>),
    Alone(String, Box<Series>),
    Story(Box<Story>),
}

/// Makes stories from files, in the order of the files. Also returns what could not be read in them, a sentence each.
pub fn stories(found: Vec<(String, Found)>) -> (Vec<Story>, Vec<String>) {
    let mut pieces = Vec::new();
    let mut receipts: HashMap<String, usize> = HashMap::new();
    let mut lost = Vec::new();
    for (file, found) in found {
        match found {
            Found::Receipt(receipt, points) => add_receipt(&mut pieces, &mut receipts, file, *receipt, points),
            Found::Series(series) => {
                if series.lost > 0 {
                    let rows = receipt::count(series.lost, "row");
                    lost.push(format!("{file}: {rows} could not be read, the first: {}", series.first_lost));
                }
                pieces.push(Piece::Alone(file, series));
            }
            Found::Test(report, target) => pieces.extend(told(&file, tcp::stories(&report, &target))),
            Found::Support(support, target) => pieces.extend(told(&file, tcp::of_support(&support, &target))),
            Found::Failed(message, points) => {
                pieces.extend(told(&file, vec![transfer::failed(&file, &message, &points)]))
            }
            Found::Unfinished(points) => pieces.extend(told(&file, vec![transfer::unfinished(&file, &points)])),
        }
    }
    let pieces = join_in_order(join_by_job(pieces, &receipts));
    (pieces.into_iter().map(story).collect(), lost)
}

fn told(file: &str, stories: Vec<Story>) -> Vec<Piece> {
    let named = |mut story: Story| {
        story.files.push(file.to_owned());
        Piece::Story(Box::new(story))
    };
    stories.into_iter().map(named).collect()
}

/// The same receipt twice, as `--json` and `--receipt` give it, is one.
fn add_receipt(
    pieces: &mut Vec<Piece>,
    known: &mut HashMap<String, usize>,
    file: String,
    receipt: Receipt,
    points: Vec<Point>,
) {
    if let Some(Piece::Ended(same)) = known.get(&receipt.transfer).and_then(|at| pieces.get_mut(*at))
        && same.receipt == receipt
    {
        same.files.push(file);
        if same.points.is_empty() {
            same.points = points;
        }
        return;
    }
    known.insert(receipt.transfer.clone(), pieces.len());
    let ended = Ended { files: vec![file], receipt, points, series: None, is_guessed: false };
    pieces.push(Piece::Ended(Box::new(ended)));
}

/// A series that says its job joins the receipt that does.
fn join_by_job(mut pieces: Vec<Piece>, receipts: &HashMap<String, usize>) -> Vec<Piece> {
    let home = |piece: &Piece| match piece {
        Piece::Alone(_, series) => receipts.get(series.job.as_ref()?).copied(),
        _ => None,
    };
    let homes: Vec<(usize, usize)> =
        pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, home(piece)?))).collect();
    let mut joined = Vec::new();
    for (at, home) in homes {
        let is_free = matches!(&pieces[home], Piece::Ended(ended) if ended.series.is_none());
        if let Piece::Alone(file, series) = &mut pieces[at]
            && is_free
        {
            let (file, series) = (std::mem::take(file), std::mem::take(&mut **series));
            joined.push(at);
            if let Piece::Ended(ended) = &mut pieces[home] {
                ended.files.push(file);
                ended.series = Some(series);
            }
        }
    }
    let mut at = 0;
    pieces.retain(|_| {
        at += 1;
        joined.binary_search(&(at - 1)).is_err()
    });
    pieces
}

/// The first series that names no job joins the first receipt that has none, and so on: only where they are as many.
fn join_in_order(mut pieces: Vec<Piece>) -> Vec<Piece> {
    let is_nameless = |piece: &Piece| matches!(piece, Piece::Alone(_, series) if series.job.is_none());
    let is_waiting = |piece: &Piece| matches!(piece, Piece::Ended(ended) if ended.series.is_none());
    let many = pieces.iter().filter(|piece| is_nameless(piece)).count();
    if many == 0 || many != pieces.iter().filter(|piece| is_waiting(piece)).count() {
        return pieces;
    }
    let (mut nameless, mut rest): (Vec<Piece>, Vec<Piece>) = pieces.drain(..).partition(is_nameless);
    let mut next = nameless.drain(..);
    for piece in &mut rest {
        if let Piece::Ended(ended) = piece
            && ended.series.is_none()
            && let Some(Piece::Alone(file, series)) = next.next()
        {
            ended.files.push(file);
            ended.series = Some(*series);
            ended.is_guessed = true;
        }
    }
    drop(next);
    rest
}

fn story(piece: Piece) -> Story {
    match piece {
        Piece::Story(story) => *story,
        Piece::Alone(file, series) => {
            let mut story = transfer::alone(&file, *series);
            story.files.push(file);
            story
        }
        Piece::Ended(ended) => {
            let Ended { files, receipt, points, series, is_guessed } = *ended;
            let mut story = transfer::ended(receipt, &points, series);
            story.files = files;
            if is_guessed {
                story
                    .remarks
                    .push("The series names no job: it was taken for this one's by the order of the files.".into());
            }
            story
        }
    }
}

#[cfg(test)]
mod tests;
