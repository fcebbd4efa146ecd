//! The arguments of `longhaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Run a node: offer directories to other hosts.
///
/// The node prints `listening on HOST:PORT` on stdout when it is ready, and serves until it is stopped (SIGINT, SIGTERM). SIGHUP
/// makes it read the file of --config again, without interrupting a transfer. Clients need a key (`longhaul grant`), unless
/// --anonymous allows them to do without. Every option has a key of the same name in the TOML file of --config; an option on
/// the command line overrides the file.
#[derive(Debug, Clone, ClapArgs)]
pub struct Serve {
    /// Export a directory: NAME=DIR (read-only), NAME=DIR:rw; or a place on a WebDAV or S3 server: NAME=URL
    ///
    /// NAME=DIR:rw,tape=PROGRAM is for files on tape: PROGRAM stages files to disk and writes them to tape. docs/tape.md describes
    /// its commands.
    #[arg(long, value_name = "NAME=DIR[:ro|:rw]")]
    pub export: Vec<String>,
    /// Listen at this address; port 0 selects a free port
    ///
    /// Default: all addresses, port 7411.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Accept streams at this address as well, over a further path; can be repeated
    ///
    /// For hosts with several interfaces or uplinks. Clients spread the streams of a job over the address that they connected to
    /// and all these addresses. If one path is cut, they continue over the others.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',')]
    pub advertise: Vec<String>,
    /// Spread the streams of jobs over this node too, a mover of the same exports; can be repeated
    ///
    /// A mover is another `longhaul serve`, on this host or on another host. Its exports have the same names and are the same
    /// directories (a shared file system). Create a key at the mover for each export (`longhaul grant --export NAME --write`); this
    /// node reads the keys from LONGHAUL_KEY or --key-file. Clients need to know this node only. If a mover fails, this node leaves
    /// it out, and the job continues.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub peers: Vec<String>,
    /// Send clients of XRootD's protocol that open a large file for reading, over TLS, to these movers in turn; separated by commas
    ///
    /// HOST is a name that clients can reach, for which the mover has a certificate that they trust. Each mover permits macaroons
    /// (`[macaroons]` in its access.toml), and this node has its keys, as for --peers. Files of less than 64 MiB, and files that are
    /// written, stay here.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub root_movers: Vec<String>,
    /// Admit clients without a credential: `ro` to read, `rw` to write as well if the export allows it
    #[arg(long, value_name = "ro|rw")]
    pub anonymous: Option<Anonymous>,
    /// Allow unencrypted payload for clients that ask for it, and http:// as well as https://
    #[arg(long)]
    pub plain: bool,
    /// Show this certificate chain to HTTP clients (PEM, the node's certificate first; default: a self-signed certificate)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM; default: in the file of --certificate)
    #[arg(long, value_name = "FILE")]
    pub certificate_key: Option<PathBuf>,
    /// Ask HTTP clients for certificates, and accept those of the authorities in this PEM file or directory
    ///
    /// A directory is one such as /etc/grid-security/certificates: its revocation lists and signing policies count, and are read again
    /// every ten minutes.
    #[arg(long, value_name = "FILE|DIR")]
    pub client_ca: Option<PathBuf>,
    /// Accept VOMS attributes from the servers in this directory: VO/HOST.lsc, as in /etc/grid-security/vomsdir
    #[arg(long, value_name = "DIR")]
    pub vomsdir: Option<PathBuf>,
    /// Read the policy from this file: tokens, certificates, macaroons, addresses (default: access.toml in the state directory)
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Report the experiment of each marked transfer to this collector (SciTags); can be repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    pub fireflies: Vec<String>,
    /// Let web pages of this origin send requests to the node (CORS): https://HOST[:PORT], or * for all origins; can be repeated
    ///
    /// For portals and notebooks. Each page must send a credential of its own; the node ignores the cookies of its own pages.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub allow_origin: Vec<String>,
    /// Answer tests of clients without a key, in these protocols: iperf3, stamp, twamp, pscheduler
    ///
    /// The node answers clients of all networks, or of one network: iperf3@192.0.2.0/24. Can be repeated, or separated by commas.
    #[arg(long, value_name = "PROTOCOL[@PREFIX]", value_delimiter = ',')]
    pub responders: Vec<String>,
    /// Answer TWAMP-Control at this address, usually port 862, for the clients of --responders twamp[@PREFIX] (perfSONAR latency)
    #[arg(long, value_name = "HOST:PORT")]
    pub twamp_listen: Option<SocketAddr>,
    /// Listen at this address as well, usually port 1094, where clients of XRootD (xrdcp, gfal2) look for a server
    #[arg(long, value_name = "HOST:PORT")]
    pub root_listen: Option<SocketAddr>,
    /// Let hosts of this network, such as your monitoring, read `/metrics` without a key, over http:// as well
    ///
    /// Clients that may use the node can always read it. Can be repeated, or separated by commas.
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Let clients with a key read the audit of this host's settings, for `longhaul tune compare`
    #[arg(long)]
    pub audit: bool,
    /// Offer scratch places below this directory to exercises such as data challenges
    ///
    /// Whoever may write to the whole export `exercise` (`longhaul grant --export exercise --write`) may order scratch places:
    /// directories with a quota and a key of their own, which the node removes within a minute unless they are renewed. The node
    /// owns the directory: at its start it removes everything there whose name is a UUID. SIZE bounds all places together;
    /// default: half of the space that is free at the start.
    #[arg(long, value_name = "DIR[,quota=SIZE]")]
    pub exercise: Option<String>,
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
