//! Encodes a job's order, and its settings.

use model::spec::{Delete, LiveSettings, Options, Sync};

use super::super::{Direction, Open};
use super::{list, place};
use crate::codec::Writer;

fn options(w: &mut Writer, options: &Options) {
    // A version that knows only 0 and 1 refuses the other values: it would copy links where their targets were ordered.
    w.u8(u8::from(options.recursive) + 2 * u8::from(options.copy_links));
    w.bool(options.into);
    w.u8(Sync::ALL.iter().position(|s| *s == options.sync).unwrap_or(0) as u8);
    w.bool(options.no_overwrite);
    w.bool(options.durable);
    list(w, &options.checksums, |w, a| w.u8(a.code()));
    delete(w, options.delete);
    for flag in [options.dry_run, options.owner, options.xattrs] {
        w.bool(flag);
    }
    w.number(options.wait_space.as_secs());
    list(w, &options.filters, |w, filter| {
        w.bool(filter.include);
        w.text(&filter.pattern);
    });
}

/// A version that knows only 0 and 1 refuses the other values: a bound that it did not keep would cost data.
fn delete(w: &mut Writer, delete: Delete) {
    match delete {
        Delete::No => w.u8(0),
        Delete::Careful => w.u8(1),
        Delete::All => w.u8(2),
        Delete::AtMost(max) => {
            w.u8(3);
            w.number(max);
        }
    }
}

pub(super) fn open(w: &mut Writer, order: &Open) {
    w.raw(&order.job);
    w.bool(order.direction == Direction::Pull);
    list(w, &order.places, place);
    options(w, &order.options);
    w.text(order.congestion.as_deref().unwrap_or(""));
    live_settings(w, &order.steer);
    w.bool(order.listed);
}

pub(super) fn live_settings(w: &mut Writer, settings: &LiveSettings) {
    w.number(settings.limit_bit_s);
    w.number(settings.streams.into());
    w.bool(settings.paused);
}
