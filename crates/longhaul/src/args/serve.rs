//! The arguments of `longhaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Run a node: offer directories to others.
///
/// Prints `listening on HOST:PORT` on stdout once ready, then serves until it is stopped (SIGINT, SIGTERM). SIGHUP reads the
/// file of --config again, and drops no transfer. Nobody is let in without a key (`longhaul grant`) unless --anonymous says
/// so. Every option has a key of the same name in that TOML file; what is typed wins.
#[derive(Debug, Clone, ClapArgs)]
pub struct Serve {
    /// Offer a directory: NAME=DIR (read-only), NAME=DIR:rw; or a place on a WebDAV or S3 server: NAME=URL
    ///
    /// NAME=DIR:rw,tape=PROGRAM where a program brings files from tape and takes them there; docs/tape.md says what it is asked.
    #[arg(long, value_name = "NAME=DIR[:ro|:rw]")]
    pub export: Vec<String>,
    /// Where to listen; port 0 takes a free one
    ///
    /// Default: all addresses, port 7411.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Take streams at this address as well, over a path of its own; may be given again
    ///
    /// Clients spread a job's streams over the address they were given and all of these, and go on over the others when one
    /// is cut. For hosts with several interfaces or uplinks.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',')]
    pub advertise: Vec<String>,
    /// Spread the streams of a job over this node too, a mover of the same exports; may be given again
    ///
    /// A mover is another `longhaul serve` on this host or another one, whose exports have the same names and are the same
    /// directories (a shared file system). It gives out a key for each of them (`longhaul grant --export NAME --write`), which this node
    /// takes from LONGHAUL_KEY or --key-file. Clients know of this node alone. A mover that dies is left out.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub peers: Vec<String>,
    /// Let anybody in without a key: `ro` to read, `rw` to write what exports allow
    #[arg(long, value_name = "ro|rw")]
    pub anonymous: Option<Anonymous>,
    /// Allow payload in clear to clients that ask for it, and http:// beside https://
    #[arg(long)]
    pub plain: bool,
    /// Show this certificate to HTTP clients (PEM, the node's own first) instead of one that nobody vouches for
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM); default: it stands in the certificate's file
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
    /// Ask HTTP clients for certificates, and believe those that the authorities in this PEM file vouch for
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// Who may do what: tokens, certificates, macaroons, addresses; default: access.toml in the state directory
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Tell this collector for which experiment transfers over HTTP are (SciTags); may be given again
    #[arg(long, value_name = "HOST[:PORT]")]
    pub fireflies: Vec<String>,
    /// Let pages of this site ask this node from a browser (CORS): https://HOST[:PORT], or * for all sites; may be given again
    ///
    /// For portals and notebooks. A page shows a credential of its own; what this node has given the browser does not count.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub allow_origin: Vec<String>,
    /// Answer tests of people without a key, by the protocol they speak: iperf3, stamp, twamp, pscheduler
    ///
    /// From everywhere, or from one network alone: iperf3@192.0.2.0/24. May be given again, or separated by commas.
    #[arg(long, value_name = "PROTOCOL[@PREFIX]", value_delimiter = ',')]
    pub responders: Vec<String>,
    /// Answer TWAMP-Control here (port 862 is the usual one), those whom --responders twamp[@PREFIX] names: latency tests of perfSONAR
    #[arg(long, value_name = "HOST:PORT")]
    pub twamp_listen: Option<SocketAddr>,
    /// Let hosts of this network read `/metrics` without a key, over http:// as well: the one that watches this node
    ///
    /// Who may use the node may read it anyway. May be given again, or separated by commas.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Tell those who have a key how the settings of this host stand, for `longhaul tune compare`
    #[arg(long)]
    pub audit: bool,
    /// Read options from this TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The rights of anonymous clients.
#[derive(Debug, Clone, Copy, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymous {
    /// Read
    Ro,
    /// Read and write
    Rw,
}
