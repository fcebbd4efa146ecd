//! The classes of flows: what they move, and with what.

use toml::Spanned;

use super::{FILES_MAX, FileText, Result};
use crate::data_set::{DataSet, FileMix};
use crate::file::raw::RawClass;
use crate::file::{ClassFiles, FlowClass, FlowTool, Medium};

/// Clients of a flow.
const CLIENTS_MAX: u32 = 256;

/// A class of flows.
pub(super) fn class(source: &FileText<'_>, name: &str, raw: &Spanned<RawClass>) -> Result<FlowClass> {
    let class = raw.get_ref();
    let tool = match class.tool.as_ref().map(|tool| tool.get_ref().as_str()) {
        None | Some("longhaul") => FlowTool::Longhaul,
        Some("hub") => FlowTool::Hub,
        Some(other) => FlowTool::Client(other.to_owned()),
    };
    let medium = match class.medium.as_ref().map(|medium| medium.get_ref().as_str()) {
        None | Some("disk") => Medium::Disk,
        Some("memory") => Medium::Memory,
        Some("read") => Medium::Read,
        Some("write") => Medium::Write,
        Some(other) => {
            let span = class.medium.as_ref().map_or(raw.span(), Spanned::span);
            return Err(source.problem(
                &span,
                format!("{other:?} is no medium"),
                "write \"disk\", \"memory\", \"read\" or \"write\"",
            ));
        }
    };
    let clients = class.clients.as_ref().map_or(1, |clients| *clients.get_ref());
    if !(1..=CLIENTS_MAX).contains(&clients) || (clients > 1 && !matches!(tool, FlowTool::Client(_))) {
        let remedy = "write 1 to 256 for tools of others; one job of Longhaul fills a path by itself";
        return Err(source.problem(&raw.span(), format!("{clients} clients in the class {name}"), remedy));
    }
    if let Some(window) = class.window.as_ref().filter(|_| !matches!(tool, FlowTool::Client(_))) {
        return Err(source.problem(
            &window.span(),
            format!("a window for {}", tool.name()),
            "it is for clients of other tools",
        ));
    }
    if let Some(streams) = class.streams.as_ref().filter(|_| tool == FlowTool::Hub) {
        return Err(source.problem(&streams.span(), "streams for a hub", "leave them out: the nodes decide"));
    }
    if medium != Medium::Disk && tool == FlowTool::Hub {
        return Err(source.problem(&raw.span(), "a hub moves files", "use medium = \"disk\" with tool = \"hub\""));
    }
    if !medium.reads() && matches!(tool, FlowTool::Client(_)) && tool.name() != "iperf3" {
        let what = format!("{} fetches files, and the class {name} has none", tool.name());
        return Err(source.problem(&raw.span(), what, "use medium = \"read\" or \"disk\" with clients of other tools"));
    }
    Ok(FlowClass {
        name: name.to_owned(),
        files: class_files(source, name, raw)?,
        medium,
        files_each: files_each(source, class.files_each.as_ref(), &tool)?,
        tool,
        clients,
        streams: class.streams.as_ref().map(|streams| *streams.get_ref()),
        window_bytes: class.window.as_ref().map(|window| source.bytes(window)).transpose()?,
    })
}

/// The files of each process; only processes of other tools copy them one after another.
fn files_each(source: &FileText<'_>, stated: Option<&Spanned<u32>>, tool: &FlowTool) -> Result<u32> {
    match stated {
        None => Ok(1),
        Some(stated) if *stated.get_ref() > 0 && matches!(tool, FlowTool::Client(_)) => Ok(*stated.get_ref()),
        Some(stated) => {
            let what = format!("files_each = {}", stated.get_ref());
            Err(source.problem(&stated.span(), what, "it is for clients of other tools, and at least 1"))
        }
    }
}

fn class_files(source: &FileText<'_>, name: &str, raw: &Spanned<RawClass>) -> Result<ClassFiles> {
    let class = raw.get_ref();
    if class.files.is_some_and(|files| files > FILES_MAX) {
        return Err(source.problem(
            &raw.span(),
            format!("the class {name} has too many files"),
            "a round has 200,000 at most",
        ));
    }
    match (&class.set, &class.mix, &class.size) {
        (Some(set), None, None) => match DataSet::of_name(set.get_ref()) {
            Some(known) => Ok(ClassFiles::Set(known)),
            None => {
                let names: Vec<&str> = DataSet::ALL.iter().map(|set| set.name()).collect();
                let what = format!("{:?} is no data set", set.get_ref());
                Err(source.problem(&set.span(), what, format!("write one of {}", names.join(", "))))
            }
        },
        (None, Some(mix), None) => {
            let shares =
                mix.iter().map(|part| Ok((part.share, source.bytes(&part.size)?))).collect::<Result<Vec<_>>>()?;
            let mix = FileMix::new(shares)
                .map_err(|error| source.problem(&raw.span(), error.to_string(), "shares are above 0"))?;
            Ok(ClassFiles::Mix { count: class.files.unwrap_or(1).max(1), mix })
        }
        (None, None, Some(size)) => {
            Ok(ClassFiles::Equal { count: class.files.unwrap_or(1).max(1), bytes: source.bytes(size)? })
        }
        _ => {
            let what = format!("the class {name} does not say what its files are");
            let remedy =
                "write files and size, or set = \"NAME\", or files and mix = [{ share = 0.5, size = \"1MB\" }, …]";
            Err(source.problem(&raw.span(), what, remedy))
        }
    }
}
