//! A confirmation round: each site confirms or corrects its record until a deadline, and is reminded before it.
//!
//! Does not know: clocks. Days are counted from 1970.

use std::collections::BTreeMap;

/// Days before the deadline on which sites that have not answered are reminded.
const REMINDERS: [u32; 3] = [14, 7, 1];

/// The state of one site in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoundState {
    /// The site was asked.
    #[default]
    Asked,
    /// The site has opened its record.
    Opened,
    /// The site has sent corrections that somebody must look at.
    Corrected,
    /// The site has confirmed its record as it stands.
    Confirmed,
    /// The deadline is over, and the site has not answered.
    Overdue,
}

/// A reminder that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reminder {
    /// The site.
    pub site: String,
    /// Days until the deadline.
    pub days_left: u32,
}

/// A round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// The last day on which answers count.
    pub deadline: u32,
    states: BTreeMap<String, (RoundState, Option<u32>)>,
}

impl Round {
    /// A round with these sites until a day.
    pub fn new(sites: impl IntoIterator<Item = String>, deadline: u32) -> Round {
        Round { deadline, states: sites.into_iter().map(|site| (site, (RoundState::Asked, None))).collect() }
    }

    /// A round that was stored: each site with its state, and the days before the deadline of its last reminder.
    pub fn restore(deadline: u32, sites: impl IntoIterator<Item = (String, RoundState, Option<u32>)>) -> Round {
        Round { deadline, states: sites.into_iter().map(|(site, state, last)| (site, (state, last))).collect() }
    }

    /// The days before the deadline of a site's last reminder.
    pub fn last_reminder(&self, site: &str) -> Option<u32> {
        self.states.get(site).and_then(|(_, last)| *last)
    }

    /// The state of a site on a day; none if it takes no part.
    pub fn state(&self, site: &str, today: u32) -> Option<RoundState> {
        self.states(today).find(|(name, _)| *name == site).map(|(_, state)| state)
    }

    /// The state of each site on a day.
    pub fn states(&self, today: u32) -> impl Iterator<Item = (&str, RoundState)> {
        let state = move |state: RoundState| match state {
            RoundState::Asked | RoundState::Opened if today > self.deadline => RoundState::Overdue,
            state => state,
        };
        self.states.iter().map(move |(site, (stored, _))| (site.as_str(), state(*stored)))
    }

    /// Notes what a site did. A confirmed record that is corrected later must be looked at again.
    ///
    /// # Errors
    /// The site does not take part, or the deadline is over.
    pub fn answer(&mut self, site: &str, state: RoundState, today: u32) -> Result<(), String> {
        let deadline = self.deadline;
        let Some((stored, _)) = self.states.get_mut(site) else {
            return Err(format!("{site} takes no part in this round: add it to the catalogue first"));
        };
        if today > deadline {
            return Err(format!("the round ended on day {deadline}: ask for a new one"));
        }
        // A site that opens its record again does not take its answer back.
        if state != RoundState::Opened || *stored == RoundState::Asked {
            *stored = state;
        }
        Ok(())
    }

    /// The reminders that are due on a day; each is returned once, also if some days were missed.
    pub fn reminders(&mut self, today: u32) -> Vec<Reminder> {
        let Some(days_left) = self.deadline.checked_sub(today) else { return Vec::new() };
        let Some(due) = REMINDERS.into_iter().filter(|reminder| days_left <= *reminder).min() else {
            return Vec::new();
        };
        let mut reminders = Vec::new();
        for (site, (state, last)) in &mut self.states {
            let is_open = matches!(state, RoundState::Asked | RoundState::Opened);
            if is_open && last.is_none_or(|last| last > due) {
                *last = Some(due);
                reminders.push(Reminder { site: site.clone(), days_left });
            }
        }
        reminders
    }

    /// Whether every site has confirmed.
    pub fn is_complete(&self) -> bool {
        self.states.values().all(|(state, _)| *state == RoundState::Confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round() -> Round {
        Round::new(["jodrell-bank".to_owned(), "perth".to_owned()], 100)
    }

    #[test]
    fn sites_that_have_not_answered_are_reminded_once_at_each_time() {
        let mut round = round();
        round.answer("perth", RoundState::Confirmed, 80).unwrap();
        let days: Vec<(u32, usize)> =
            (84..=101).map(|day| (day, round.reminders(day).len())).filter(|(_, due)| *due > 0).collect();
        assert_eq!(days, [(86, 1), (93, 1), (99, 1)]);
        let mut late = self::round();
        assert_eq!(late.reminders(95).len(), 2, "after missed days one reminder, not two");
        assert_eq!(late.reminders(96).len(), 0);
    }

    #[test]
    fn a_site_confirms_corrects_or_is_overdue() {
        let mut round = round();
        round.answer("perth", RoundState::Confirmed, 80).unwrap();
        round.answer("perth", RoundState::Opened, 81).unwrap();
        assert!(!round.is_complete());
        let states: Vec<_> = round.states(101).collect();
        assert_eq!(states, [("jodrell-bank", RoundState::Overdue), ("perth", RoundState::Confirmed)]);
        assert!(round.answer("jodrell-bank", RoundState::Confirmed, 101).unwrap_err().contains("ended"));
        assert!(round.answer("paris", RoundState::Confirmed, 90).unwrap_err().contains("takes no part"));
        round.answer("jodrell-bank", RoundState::Confirmed, 100).unwrap();
        assert!(round.is_complete());
    }
}
