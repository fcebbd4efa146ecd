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
    /// Whether the series was joined by position.
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
    let mut inputs = Vec::new();
    let mut receipts: HashMap<String, usize> = HashMap::new();
    let mut remarks = Vec::new();
    for (file, found) in found {
        match found {
            ReportInput::Receipt(receipt, points) => add_receipt(&mut inputs, &mut receipts, file, *receipt, points),
            ReportInput::Series(series) => {
                if series.unreadable > 0 {
                    let rows = receipt::count(series.unreadable, "row");
                    remarks.push(format!("{file}: {rows} could not be read, the first: {}", series.first_error));
                }
                inputs.push(StoryInput::Alone(file, series));
            }
            ReportInput::Test(report, target) => inputs.extend(named_stories(&file, tcp::stories(&report, &target))),
            ReportInput::Support(support, target) => {
                inputs.extend(named_stories(&file, tcp::of_support(&support, &target)))
            }
            ReportInput::Failed(message, points) => {
                inputs.extend(named_stories(&file, vec![transfer::failed(&file, &message, &points)]))
            }
            ReportInput::Unfinished(points) => {
                inputs.extend(named_stories(&file, vec![transfer::unfinished(&file, &points)]))
            }
        }
    }
    let inputs = join_in_order(join_by_job(inputs, &receipts));
    (inputs.into_iter().map(story).collect(), remarks)
}

fn named_stories(file: &str, stories: Vec<Story>) -> Vec<StoryInput> {
    let named = |mut story: Story| {
        story.files.push(file.to_owned());
        StoryInput::Story(Box::new(story))
    };
    stories.into_iter().map(named).collect()
}

/// Adds a receipt. A receipt that was given twice, by `--json` and by `--receipt`, is one.
fn add_receipt(
    inputs: &mut Vec<StoryInput>,
    known: &mut HashMap<String, usize>,
    file: String,
    receipt: Receipt,
    points: Vec<Point>,
) {
    if let Some(StoryInput::JoinedReceipt(same)) = known.get(&receipt.transfer).and_then(|at| inputs.get_mut(*at))
        && same.receipt == receipt
    {
        same.files.push(file);
        if same.points.is_empty() {
            same.points = points;
        }
        return;
    }
    known.insert(receipt.transfer.clone(), inputs.len());
    let ended = JoinedReceipt { files: vec![file], receipt, points, series: None, is_guessed: false };
    inputs.push(StoryInput::JoinedReceipt(Box::new(ended)));
}

/// Joins each series that names a job with the receipt of that job.
fn join_by_job(mut inputs: Vec<StoryInput>, receipts: &HashMap<String, usize>) -> Vec<StoryInput> {
    let receipt_index = |input: &StoryInput| match input {
        StoryInput::Alone(_, series) => receipts.get(series.job.as_ref()?).copied(),
        _ => None,
    };
    let receipt_indexes: Vec<(usize, usize)> =
        inputs.iter().enumerate().filter_map(|(at, input)| Some((at, receipt_index(input)?))).collect();
    let mut joined = Vec::new();
    for (at, receipt_index) in receipt_indexes {
        let is_free = matches!(&inputs[receipt_index], StoryInput::JoinedReceipt(ended) if ended.series.is_none());
        if let StoryInput::Alone(file, series) = &mut inputs[at]
            && is_free
        {
            let file = std::mem::take(file);
            let series = std::mem::take(&mut **series);
            joined.push(at);
            if let StoryInput::JoinedReceipt(ended) = &mut inputs[receipt_index] {
                ended.files.push(file);
                ended.series = Some(series);
            }
        }
    }
    let mut at = 0;
    inputs.retain(|_| {
        at += 1;
        joined.binary_search(&(at - 1)).is_err()
    });
    inputs
}

/// Joins the first series that names no job with the first receipt that has no series, and so on, if there are as many of the one as of the other.
fn join_in_order(mut inputs: Vec<StoryInput>) -> Vec<StoryInput> {
    let is_nameless = |input: &StoryInput| matches!(input, StoryInput::Alone(_, series) if series.job.is_none());
    let is_waiting = |input: &StoryInput| matches!(input, StoryInput::JoinedReceipt(ended) if ended.series.is_none());
    let count = inputs.iter().filter(|input| is_nameless(input)).count();
    if count == 0 || count != inputs.iter().filter(|input| is_waiting(input)).count() {
        return inputs;
    }
    let (mut nameless, mut rest): (Vec<StoryInput>, Vec<StoryInput>) = inputs.drain(..).partition(is_nameless);
    let mut next = nameless.drain(..);
    for input in &mut rest {
        if let StoryInput::JoinedReceipt(ended) = input
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

fn story(input: StoryInput) -> Story {
    match input {
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
                    .push("The series names no job: it was assigned to this one by the order of the files.".into());
            }
            story
        }
    }
}

#[cfg(test)]
mod tests;
