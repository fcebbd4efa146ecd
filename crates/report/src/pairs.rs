//! Joins the files of one transfer. A series joins the receipt of the transfer that it names. Series that name no transfer join the
//! remaining receipts by position, if there are as many.

use std::collections::HashMap;

use model::v1::Receipt;

use crate::read::{Point, ReportInput};
use crate::series::Series;
use crate::story::Story;
use crate::{receipt, tcp, transfer};

/// A receipt, with the files that belong to it.
struct JoinedReceipt {
    files: Vec<String>,
    receipt: Receipt,
    points: Vec<Point>,
    series: Option<Series>,
    is_guessed: bool,
}

/// The input of a story.
enum StoryInput {
    JoinedReceipt(Box<JoinedReceipt>),
    Alone(String, Box<Series>),
    Story(Box<Story>),
}

/// Makes stories from files, in the order of the files. Also returns a sentence for each file of which a part could not be read.
pub fn stories(found: Vec<(String, ReportInput)>) -> (Vec<Story>, Vec<String>) {
    let mut pieces = Vec::new();
    let mut receipts: HashMap<String, usize> = HashMap::new();
    let mut lost = Vec::new();
    for (file, found) in found {
        match found {
            ReportInput::Receipt(receipt, points) => add_receipt(&mut pieces, &mut receipts, file, *receipt, points),
            ReportInput::Series(series) => {
                if series.lost > 0 {
                    let rows = receipt::count(series.lost, "row");
                    lost.push(format!("{file}: {rows} could not be read, the first: {}", series.first_lost));
                }
                pieces.push(StoryInput::Alone(file, series));
            }
            ReportInput::Test(report, target) => pieces.extend(told(&file, tcp::stories(&report, &target))),
            ReportInput::Support(support, target) => pieces.extend(told(&file, tcp::of_support(&support, &target))),
            ReportInput::Failed(message, points) => {
                pieces.extend(told(&file, vec![transfer::failed(&file, &message, &points)]))
            }
            ReportInput::Unfinished(points) => pieces.extend(told(&file, vec![transfer::unfinished(&file, &points)])),
        }
    }
    let pieces = join_in_order(join_by_job(pieces, &receipts));
    (pieces.into_iter().map(story).collect(), lost)
}

fn told(file: &str, stories: Vec<Story>) -> Vec<StoryInput> {
    let named = |mut story: Story| {
        story.files.push(file.to_owned());
        StoryInput::Story(Box::new(story))
    };
    stories.into_iter().map(named).collect()
}

/// Adds a receipt. The same receipt twice, as `--json` and `--receipt` write it, is one.
fn add_receipt(
    pieces: &mut Vec<StoryInput>,
    known: &mut HashMap<String, usize>,
    file: String,
    receipt: Receipt,
    points: Vec<Point>,
) {
    if let Some(StoryInput::JoinedReceipt(same)) = known.get(&receipt.transfer).and_then(|at| pieces.get_mut(*at))
        && same.receipt == receipt
    {
        same.files.push(file);
        if same.points.is_empty() {
            same.points = points;
        }
        return;
    }
    known.insert(receipt.transfer.clone(), pieces.len());
    let ended = JoinedReceipt { files: vec![file], receipt, points, series: None, is_guessed: false };
    pieces.push(StoryInput::JoinedReceipt(Box::new(ended)));
}

/// Joins each series that names a job with the receipt of that job.
fn join_by_job(mut pieces: Vec<StoryInput>, receipts: &HashMap<String, usize>) -> Vec<StoryInput> {
    let home = |piece: &StoryInput| match piece {
        StoryInput::Alone(_, series) => receipts.get(series.job.as_ref()?).copied(),
        _ => None,
    };
    let homes: Vec<(usize, usize)> =
        pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, home(piece)?))).collect();
    let mut joined = Vec::new();
    for (at, home) in homes {
        let is_free = matches!(&pieces[home], StoryInput::JoinedReceipt(ended) if ended.series.is_none());
        if let StoryInput::Alone(file, series) = &mut pieces[at]
            && is_free
        {
            let (file, series) = (std::mem::take(file), std::mem::take(&mut **series));
            joined.push(at);
            if let StoryInput::JoinedReceipt(ended) = &mut pieces[home] {
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

/// Joins the first series that names no job with the first receipt that has no series, and so on, if there are as many.
fn join_in_order(mut pieces: Vec<StoryInput>) -> Vec<StoryInput> {
    let is_nameless = |piece: &StoryInput| matches!(piece, StoryInput::Alone(_, series) if series.job.is_none());
    let is_waiting = |piece: &StoryInput| matches!(piece, StoryInput::JoinedReceipt(ended) if ended.series.is_none());
    let many = pieces.iter().filter(|piece| is_nameless(piece)).count();
    if many == 0 || many != pieces.iter().filter(|piece| is_waiting(piece)).count() {
        return pieces;
    }
    let (mut nameless, mut rest): (Vec<StoryInput>, Vec<StoryInput>) = pieces.drain(..).partition(is_nameless);
    let mut next = nameless.drain(..);
    for piece in &mut rest {
        if let StoryInput::JoinedReceipt(ended) = piece
            && ended.series.is_none()
            && let Some(StoryInput::Alone(file, series)) = next.next()
        {
            ended.files.push(file);
            ended.series = Some(*series);
            ended.is_guessed = true;
        }
    }
    drop(next);
    rest
}

fn story(piece: StoryInput) -> Story {
    match piece {
        StoryInput::Story(story) => *story,
        StoryInput::Alone(file, series) => {
            let mut story = transfer::alone(&file, *series);
            story.files.push(file);
            story
        }
        StoryInput::JoinedReceipt(ended) => {
            let JoinedReceipt { files, receipt, points, series, is_guessed } = *ended;
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
