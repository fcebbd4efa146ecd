//! Reads and changes the settings of a NIC's driver through SIOCETHTOOL (ethtool(8), linux/ethtool.h).
//!
//! This module does not know which values are right, and names settings only as the driver does.

mod parse;
mod request;

use std::io;

pub use parse::{Driver, Feature, Link};
use parse::{counters, driver, feature, indirection_table, invalid_answer, light_mw, link, names, word, words};
use request::{EthtoolRequest, NicSocket};

const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GRXRINGS: u32 = 0x2d;
const GRXCLSRLCNT: u32 = 0x2e;
const GSSET_INFO: u32 = 0x37;
const GRXFHINDIR: u32 = 0x38;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;
const GET_TS_INFO: u32 = 0x41;
const GMODULEINFO: u32 = 0x42;
const GMODULEEEPROM: u32 = 0x43;
const GLINKSETTINGS: u32 = 0x4c;
const GFECPARAM: u32 = 0x50;

/// Sets of strings.
const SS_STATS: u32 = 1;
const SS_FEATURES: u32 = 4;

/// Blocks of 32 features in a request; Linux 6.18 has two.
const FEATURE_BLOCKS: u32 = 8;
/// Most words of a mask of link modes: the kernel counts them in a signed byte.
const MASK_WORDS_MAX: i8 = 127;
/// Bytes of a module's memory that are read: both halves of an SFP; the lanes of a QSFP are in the first quarter.
const MODULE_BYTES_MAX: u32 = 512;

/// A number in one of the structures that are read as a whole and written back as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the fields in linux/ethtool.h")]
pub enum Number {
    RingRx,
    RingRxMax,
    RingTx,
    RingTxMax,
    CoalesceRxUsecs,
    CoalesceRxFrames,
    CoalesceTxUsecs,
    CoalesceTxFrames,
    CoalesceAdaptiveRx,
    CoalesceAdaptiveTx,
    PauseAutoneg,
    PauseRx,
    PauseTx,
    ChannelsRx,
    ChannelsRxMax,
    ChannelsTx,
    ChannelsTxMax,
    ChannelsCombined,
    ChannelsCombinedMax,
}

/// A structure of numbers: the command that reads it (the next one writes it), and its words.
#[derive(Clone, Copy)]
struct Numbers {
    read: u32,
    words: usize,
}

const COALESCE: Numbers = Numbers { read: 0x0e, words: 23 };
const RINGS: Numbers = Numbers { read: 0x10, words: 9 };
const PAUSE: Numbers = Numbers { read: 0x12, words: 4 };
const CHANNELS: Numbers = Numbers { read: 0x3c, words: 9 };

impl Number {
    /// Its structure, and its index there.
    fn location(self) -> (Numbers, usize) {
        match self {
            Number::RingRxMax => (RINGS, 1),
            Number::RingTxMax => (RINGS, 4),
            Number::RingRx => (RINGS, 5),
            Number::RingTx => (RINGS, 8),
            Number::CoalesceRxUsecs => (COALESCE, 1),
            Number::CoalesceRxFrames => (COALESCE, 2),
            Number::CoalesceTxUsecs => (COALESCE, 5),
            Number::CoalesceTxFrames => (COALESCE, 6),
            Number::CoalesceAdaptiveRx => (COALESCE, 10),
            Number::CoalesceAdaptiveTx => (COALESCE, 11),
            Number::PauseAutoneg => (PAUSE, 1),
            Number::PauseRx => (PAUSE, 2),
            Number::PauseTx => (PAUSE, 3),
            Number::ChannelsRxMax => (CHANNELS, 1),
            Number::ChannelsTxMax => (CHANNELS, 2),
            Number::ChannelsCombinedMax => (CHANNELS, 4),
            Number::ChannelsRx => (CHANNELS, 5),
            Number::ChannelsTx => (CHANNELS, 6),
            Number::ChannelsCombined => (CHANNELS, 8),
        }
    }
}

/// Whether an error means that there is no such NIC, or that its driver lacks the setting.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO))
}

fn absent() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// A NIC of the network of the thread that made this.
///
/// Errors of all methods: no such NIC, or a driver without the setting ([`is_absent`]); no permission (CAP_NET_ADMIN, for changes); an
/// invalid answer (`InvalidData`).
#[derive(Debug)]
pub struct Nic(NicSocket);

impl Nic {
    /// A NIC by its name. A NIC that does not exist fails only when it is used.
    ///
    /// # Errors
    /// The name cannot be that of an interface, or no socket can be made.
    pub fn new(name: &str) -> io::Result<Nic> {
        NicSocket::new(name).map(Nic)
    }

    /// Sends a request that begins with these words; the answer is in the returned request.
    fn request(&self, words: &[u32]) -> io::Result<EthtoolRequest> {
        let mut request = EthtoolRequest::new(words)?;
        self.0.ethtool(&mut request)?;
        Ok(request)
    }

    /// The driver of the NIC.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn driver(&self) -> io::Result<Driver> {
        driver(self.request(&[GDRVINFO])?.bytes())
    }

    /// The state of the link.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn link(&self) -> io::Result<Link> {
        // Without room for the masks, the kernel answers with the number of their words, negated, and nothing else. A second request with
        // that number gets the full answer. The number is the 16th byte.
        let first = self.request(&[GLINKSETTINGS])?;
        let wanted = first.bytes().get(15).copied().ok_or_else(invalid_answer)? as i8;
        if !(-MASK_WORDS_MAX..0).contains(&wanted) {
            return Err(invalid_answer());
        }
        let mut second = [GLINKSETTINGS, 0, 0, 0];
        second[3] = u32::from_ne_bytes([0, 0, 0, wanted.unsigned_abs()]);
        link(self.request(&second)?.bytes())
    }

    /// A number.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn number(&self, which: Number) -> io::Result<u32> {
        let (numbers, at) = which.location();
        word(self.request(&[numbers.read])?.bytes(), at)
    }

    /// Changes a number, and leaves the others of its structure as they are.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn set_number(&self, which: Number, value: u32) -> io::Result<()> {
        let (numbers, at) = which.location();
        let now = self.request(&[numbers.read])?;
        let mut all = (0..numbers.words).map(|at| word(now.bytes(), at)).collect::<io::Result<Vec<u32>>>()?;
        all[0] = numbers.read + 1;
        *all.get_mut(at).ok_or_else(invalid_answer)? = value;
        self.request(&all).map(drop)
    }

    /// The number of names in a set.
    fn count(&self, set: u32) -> io::Result<u32> {
        let mask = 1u64 << set;
        let halves = mask.to_ne_bytes();
        let words = [word(&halves, 0)?, word(&halves, 1)?];
        let answer = self.request(&[GSSET_INFO, 0, words[0], words[1]])?;
        let has = word(answer.bytes(), 2)? == words[0] && word(answer.bytes(), 3)? == words[1];
        if has { word(answer.bytes(), 4) } else { Err(absent()) }
    }

    fn names(&self, set: u32) -> io::Result<Vec<String>> {
        let count = self.count(set)?;
        let names = names(self.request(&[GSTRINGS, set, count])?.bytes())?;
        // The list is empty if the count has changed in between.
        if names.len() == count as usize { Ok(names) } else { Err(invalid_answer()) }
    }

    /// Every feature with its name, in the kernel's order.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn features(&self) -> io::Result<Vec<(String, Feature)>> {
        let names = self.names(SS_FEATURES)?;
        let answer = self.request(&[GFEATURES, FEATURE_BLOCKS])?;
        let named = names.into_iter().enumerate().filter(|(_, name)| !name.is_empty());
        named.map(|(at, name)| Ok((name, feature(answer.bytes(), at)?))).collect()
    }

    /// Switches a feature on or off.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn set_feature(&self, name: &str, on: bool) -> io::Result<()> {
        let names = self.names(SS_FEATURES)?;
        let at = names.iter().position(|known| known == name).ok_or_else(absent)?;
        // Blocks of a mask and the new values. The kernel accepts no more blocks than it has features for.
        let mut words = vec![0; 2 + 2 * names.len().div_ceil(32)];
        words[0] = SFEATURES;
        words[1] = names.len().div_ceil(32) as u32;
        words[2 + 2 * (at / 32)] = 1 << (at % 32);
        words[3 + 2 * (at / 32)] = u32::from(on) << (at % 32);
        let mut request = EthtoolRequest::new(&words)?;
        // Bits of the result: not to be changed; noted, but another feature prevents it; changed by a substitute.
        match self.0.ethtool(&mut request)? {
            0 | 4 => Ok(()),
            bits if bits & 1 == 1 => Err(io::Error::other("the driver does not permit a change of this feature")),
            _ => Err(io::Error::other("the driver does not permit this together with its other features")),
        }
    }

    /// Every counter with its name.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn statistics(&self) -> io::Result<Vec<(String, u64)>> {
        let names = self.names(SS_STATS)?;
        let counters = counters(self.request(&[GSTATS, names.len() as u32])?.bytes())?;
        if counters.len() == names.len() {
            Ok(names.into_iter().zip(counters).collect())
        } else {
            Err(invalid_answer())
        }
    }

    /// The receive queue of each entry of the table that spreads flows, and the number of receive queues.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn indirection_table(&self) -> io::Result<(Vec<u32>, u32)> {
        let size = word(self.request(&[GRXFHINDIR, 0])?.bytes(), 1)?;
        let table = indirection_table(self.request(&[GRXFHINDIR, size])?.bytes())?;
        Ok((table, word(self.request(&[GRXRINGS])?.bytes(), 2)?))
    }

    /// The number of rules that steer flows to queues.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn steering_rules(&self) -> io::Result<u32> {
        // The count follows the rule itself, which has 168 bytes.
        word(self.request(&[GRXCLSRLCNT])?.bytes(), 184 / 4)
    }

    /// The kinds of forward error correction in use.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn error_correction(&self) -> io::Result<Vec<&'static str>> {
        let active = word(self.request(&[GFECPARAM])?.bytes(), 1)?;
        Ok(words(active, &["none", "auto", "off", "rs", "baser", "llrs"]))
    }

    /// The kinds of time stamps that the NIC supports, in the words of ethtool(8).
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn stamping_kinds(&self) -> io::Result<Vec<&'static str>> {
        const KINDS: [&str; 7] = [
            "hardware-transmit",
            "software-transmit",
            "hardware-receive",
            "software-receive",
            "software-system-clock",
            "hardware-legacy-clock",
            "hardware-raw-clock",
        ];
        Ok(words(word(self.request(&[GET_TS_INFO])?.bytes(), 1)?, &KINDS))
    }

    /// Whether the NIC stamps arriving packets.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn stamps_arrivals(&self) -> io::Result<bool> {
        let mut request = EthtoolRequest::new(&[])?;
        self.0.stamping(&mut request)?;
        // Flags, kinds sent, kinds received.
        Ok(word(request.bytes(), 2)? != 0)
    }

    /// The optical power that its module receives, mW per lane. Absent where there is no such module, or it does not measure the power.
    ///
    /// # Errors
    /// See [`Nic`].
    pub fn light_mw(&self) -> io::Result<Vec<f64>> {
        let module = self.request(&[GMODULEINFO])?;
        let kind = word(module.bytes(), 1)?;
        let bytes = word(module.bytes(), 2)?.min(MODULE_BYTES_MAX);
        let memory = self.request(&[GMODULEEEPROM, 0, 0, bytes])?;
        let memory = memory.bytes().get(16..16 + bytes as usize).ok_or_else(invalid_answer)?;
        light_mw(kind, memory).ok_or_else(absent)
    }
}

#[cfg(test)]
mod tests;
