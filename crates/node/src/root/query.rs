//! Queries: space, settings, facts of an entry. Checksums and requests to bring files from tape have modules of their own.

use auth::Action;
use xroot::head::FileHandle;
use xroot::{ErrorCode, QueryKind, RootAnswer, RootPath, StreamId};

use super::checksum::OFFERED;
use super::connection::RootConnection;
use super::failure::{RootFailure, RootOutcome, refuse};
use super::files::RootFile;
use super::native_pull::{self, KEY_FOR_COPY};

/// The query about an open file that cancels its third-party copy.
const CANCEL_COPY: &[u8] = b"ofs.tpc cancel";

/// A text as an answer.
pub(super) fn text(text: &str) -> RootAnswer {
    RootAnswer::Ok(format!("{text}\0").into_bytes())
}

impl RootConnection {
    /// Answers a query.
    pub(super) fn query(
        &mut self,
        stream: StreamId,
        kind: u16,
        file: FileHandle,
        about: &[u8],
    ) -> RootOutcome<RootAnswer> {
        let place = || RootPath::parse(about).map_err(RootFailure::from);
        match QueryKind::from_number(kind) {
            Some(QueryKind::Checksum) => self.checksum(stream, &place()?),
            Some(QueryKind::CancelChecksum | QueryKind::Visa) => Ok(RootAnswer::Ok(Vec::new())),
            Some(QueryKind::Space) => self.space(&place()?),
            Some(QueryKind::Configuration) => Ok(self.configuration(&String::from_utf8_lossy(about))),
            Some(QueryKind::Attributes) => {
                let resolved = self.resolve(Action::Stat, &place()?, "query")?;
                let stat = resolved.stat()?;
                let kind = if stat.meta.kind == model::Kind::Dir { 'd' } else { 'f' };
                let (size, time) = (stat.meta.size, stat.meta.mtime.seconds);
                let facts = format!("oss.cgroup=default&oss.type={kind}&oss.used={size}&oss.mt={time}&oss.ct={time}");
                Ok(text(&facts))
            }
            Some(QueryKind::Prepare) => self.prepared(about),
            Some(QueryKind::OpaqueOfFile) => self.control_file(file, about),
            Some(QueryKind::Statistics) => {
                let version = env!("CARGO_PKG_VERSION");
                Ok(text(&format!("<statistics ver=\"longhaul {version}\"></statistics>")))
            }
            _ => Err(refuse(ErrorCode::Unsupported, format!("this node does not answer queries of the kind {kind}"))),
        }
    }

    /// Controls an open file: a third-party copy can be cancelled, or moved to the native engine.
    fn control_file(&self, file: FileHandle, about: &[u8]) -> RootOutcome<RootAnswer> {
        let about = about.strip_suffix(b"\0").unwrap_or(about);
        match &*self.session()?.files.get(file)? {
            RootFile::Pulled(pulled) if about == CANCEL_COPY => {
                pulled.cancel();
                Ok(RootAnswer::Ok(Vec::new()))
            }
            RootFile::Read(read) if about == KEY_FOR_COPY => {
                let fetched = read.fetched_for.as_ref();
                let fetched = fetched.ok_or_else(|| {
                    refuse(ErrorCode::NotAuthorized, "only the target of a third-party copy gets a key to the file")
                })?;
                native_pull::delegate(&self.service, fetched)
            }

            _ => Err(refuse(ErrorCode::Unsupported, "this node knows no such query about an open file")),
        }
    }

    /// The space below a path.
    fn space(&mut self, place: &RootPath) -> RootOutcome<RootAnswer> {
        let resolved = self.resolve(Action::Stat, place, "space")?;
        let space = resolved.at.store.space(&resolved.existing_dir())?;
        let (total, free) = space.map_or((-1, -1), |space| (space.total_bytes as i64, space.free_bytes as i64));
        let used = if total < 0 { -1 } else { total - free };
        Ok(text(&format!(
            "oss.cgroup=default&oss.space={total}&oss.free={free}&oss.maxf={free}&oss.used={used}&oss.quota=-1"
        )))
    }

    /// Settings of the server, a line for each name. A name that is not known is its own answer.
    fn configuration(&self, names: &str) -> RootAnswer {
        let line = |name: &str| match name {
            "bind_max" => xroot::limits::STREAMS_MAX.to_string(),
            "chksum" => {
                let all = OFFERED.iter().enumerate().map(|(at, algorithm)| format!("{at}:{algorithm}"));
                all.collect::<Vec<_>>().join(",")
            }
            "readv_ior_max" => xroot::limits::VECTOR_PART_BYTES_MAX.to_string(),
            "readv_iov_max" => xroot::limits::VECTOR_PARTS_MAX.to_string(),
            "role" => "server".to_owned(),
            "tpc" => "1".to_owned(),
            "sitename" => crate::fireflies::host_name(),
            "version" => concat!("longhaul/", env!("CARGO_PKG_VERSION")).to_owned(),
            "fattr" => {
                format!("{} {}", xroot::limits::ATTRIBUTE_NAME_BYTES_MAX, xroot::limits::ATTRIBUTE_VALUE_BYTES_MAX)
            }
            other => model::name::to_plain_line(other),
        };
        let lines: String = names.split_ascii_whitespace().map(|name| line(name) + "\n").collect();
        RootAnswer::Ok(lines.into_bytes())
    }
}
