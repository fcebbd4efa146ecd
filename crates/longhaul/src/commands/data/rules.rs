//! `longhaul data rule`: rules for a number of replicas at the endpoints of an expression.

use hubapi::Api;
use model::Exit;
use model::units::Bytes;
use model::v1::hub::{Grouping, Rule, RuleChange, RuleLock, RuleOrder, RuleState, RuleWhy};

use super::print_value;
use crate::args::{DataRuleAction, DataRuleAdd, GroupingWord};
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// The most rules that are listed.
const RULES_MAX: usize = 1_000;

/// Runs the command.
pub(super) fn run(action: &DataRuleAction, api: &Api, printer: &Printer) -> Result<Exit, Failure> {
    match action {
        DataRuleAction::Add(add) => {
            let rule = api.make_rule(&order(add)).map_err(failure)?;
            print_value(printer, &rule, rule_line);
        }
        DataRuleAction::List { name } => {
            let rules = api.rules(name.as_deref(), None, RULES_MAX).map_err(failure)?;
            rules.rules.iter().for_each(|rule| print_value(printer, rule, rule_line));
            if rules.next.is_some() {
                Printer::note(&format!("the newest {RULES_MAX} rules; GET /api/v1/rules has all"));
            }
        }
        DataRuleAction::Why { id } => print_value(printer, &api.rule_why(id).map_err(failure)?, why_lines),
        DataRuleAction::Set { id, priority, expires, suspended } => {
            let never = |text: &String| if text == "never" { String::new() } else { text.clone() };
            let expires = expires.as_ref().map(never);
            let change = RuleChange { priority: *priority, expires, suspended: *suspended, ..RuleChange::default() };
            print_value(printer, &api.change_rule(id, &change).map_err(failure)?, rule_line);
        }
        DataRuleAction::Remove { id } => print_value(printer, &api.end_rule(id).map_err(failure)?, rule_line),
    }
    Ok(Exit::Done)
}

fn order(add: &DataRuleAdd) -> RuleOrder {
    let grouping = match add.grouping {
        GroupingWord::All => Grouping::All,
        GroupingWord::Dataset => Grouping::Dataset,
        GroupingWord::File => Grouping::File,
    };
    RuleOrder {
        // The id makes a repeated request harmless: it is the same rule.
        id: Some(model::id::Uuid::now_v7().to_string()),
        name: add.name.clone(),
        copies: Some(add.copies),
        at: add.at.clone(),
        grouping,
        weight: add.weight.clone(),
        expires: add.expires.clone(),
        priority: add.priority,
        activity: add.activity.clone(),
        community: None,
        account: add.account.clone(),
        from: add.from.clone(),
        deadline: add.deadline.clone(),
        comment: add.comment.clone(),
    }
}

fn state_word(state: RuleState) -> &'static str {
    match state {
        RuleState::Replicating => "replicating",
        RuleState::Ok => "ok",
        RuleState::Stuck => "stuck",
        RuleState::Suspended => "suspended",
    }
}

/// A rule in one line.
pub(super) fn rule_line(rule: &Rule) -> String {
    let all = rule.ok + rule.replicating + rule.stuck;
    let copies = if rule.copies == 1 { "1 copy".to_owned() } else { format!("{} copies", rule.copies) };
    let expires = rule.expires.as_ref().map(|at| format!(", ends {at}")).unwrap_or_default();
    format!(
        "{}  {:11}  {}/{all} there, {} left  {}: {copies} at {}  of {}{expires}",
        rule.id,
        state_word(rule.state),
        rule.ok,
        Bytes(rule.bytes_left),
        rule.name,
        rule.at,
        rule.account
    )
}

fn why_lines(why: &RuleWhy) -> String {
    let lock = |lock: &RuleLock| {
        let error = lock.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let again = lock.not_before.as_ref().filter(|_| lock.state == "stuck");
        let again = again.map(|at| format!("; the next attempt is at {at}")).unwrap_or_default();
        format!("\n  {:11}  {} at {}{error}{again}", lock.state, lock.name, lock.endpoint)
    };
    let locks: String = why.locks.iter().map(lock).collect();
    format!("{}\n{}{locks}", rule_line(&why.rule), why.text)
}
