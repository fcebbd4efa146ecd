//! The numbers of the protocol: requests, statuses of answers, errors, kinds of queries, and flags.

/// Defines an enumeration of numbers, with the way back.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident: $number:ty { $($(#[$vdoc:meta])* $variant:ident = $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($number)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $value,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Its number.
            pub fn number(self) -> $number {
                self as $number
            }

            /// The one with a number.
            pub fn from_number(number: $number) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.number() == number)
            }
        }
    };
}

numbers! {
    /// What a client requests.
    RequestCode: u16 {
        /// A credential, during the login.
        Auth = 3000,
        /// A query, of one of [`QueryKind`].
        Query = 3001,
        /// Sets the mode of an entry.
        ChangeMode = 3002,
        /// Closes a file.
        Close = 3003,
        /// Lists a directory.
        List = 3004,
        /// Not used by any client.
        CopyFile = 3005,
        /// Agrees on the version and on TLS.
        Protocol = 3006,
        /// Begins a session.
        Login = 3007,
        /// Makes a directory.
        MakeDirectory = 3008,
        /// Renames an entry.
        Move = 3009,
        /// Opens a file.
        Open = 3010,
        /// Asks for an empty answer.
        Ping = 3011,
        /// Writes that can be undone.
        Checkpoint = 3012,
        /// Reads a range.
        Read = 3013,
        /// Removes a file.
        Remove = 3014,
        /// Removes an empty directory.
        RemoveDirectory = 3015,
        /// Flushes a file, or begins a third-party copy.
        Sync = 3016,
        /// Asks for the facts of an entry.
        Stat = 3017,
        /// Tells the server a name of the client.
        Set = 3018,
        /// Writes a range.
        Write = 3019,
        /// Extended attributes.
        Attributes = 3020,
        /// Brings files from tape.
        Prepare = 3021,
        /// Asks for the kinds of several entries.
        StatMany = 3022,
        /// Ends another session of the client.
        EndSession = 3023,
        /// Binds a connection to a session.
        Bind = 3024,
        /// Reads several ranges.
        ReadVector = 3025,
        /// Writes pages with checksums.
        PageWrite = 3026,
        /// Asks which server has a file.
        Locate = 3027,
        /// Sets the length of a file.
        Truncate = 3028,
        /// A signature of the next request.
        Signature = 3029,
        /// Reads pages with checksums.
        PageRead = 3030,
        /// Writes several ranges.
        WriteVector = 3031,
        /// Copies ranges between open files.
        Clone = 3032,
    }
}

impl RequestCode {
    /// The protocol's own name, for logs.
    pub fn word(self) -> &'static str {
        match self {
            RequestCode::Auth => "authenticate",
            RequestCode::Query => "query",
            RequestCode::ChangeMode => "chmod",
            RequestCode::Close => "close",
            RequestCode::List => "list",
            RequestCode::CopyFile => "gpfile",
            RequestCode::Protocol => "protocol",
            RequestCode::Login => "login",
            RequestCode::MakeDirectory => "mkdir",
            RequestCode::Move => "mv",
            RequestCode::Open => "open",
            RequestCode::Ping => "ping",
            RequestCode::Checkpoint => "checkpoint",
            RequestCode::Read => "read",
            RequestCode::Remove => "rm",
            RequestCode::RemoveDirectory => "rmdir",
            RequestCode::Sync => "sync",
            RequestCode::Stat => "stat",
            RequestCode::Set => "set",
            RequestCode::Write => "write",
            RequestCode::Attributes => "fattr",
            RequestCode::Prepare => "prepare",
            RequestCode::StatMany => "statx",
            RequestCode::EndSession => "endsess",
            RequestCode::Bind => "bind",
            RequestCode::ReadVector => "readv",
            RequestCode::PageWrite => "pgwrite",
            RequestCode::Locate => "locate",
            RequestCode::Truncate => "truncate",
            RequestCode::Signature => "sigver",
            RequestCode::PageRead => "pgread",
            RequestCode::WriteVector => "writev",
            RequestCode::Clone => "clone",
        }
    }
}

numbers! {
    /// How a request went.
    Status: u16 {
        /// It is done.
        Ok = 0,
        /// A part of the answer; more parts follow.
        Partial = 4000,
        /// A message that answers no request directly.
        Attention = 4001,
        /// The server wants another round of authentication.
        AuthenticateMore = 4002,
        /// It failed.
        Error = 4003,
        /// Another server has it.
        Redirect = 4004,
        /// The client is to ask again after some seconds.
        Wait = 4005,
        /// The answer follows later, by an [`Attention`](Status::Attention).
        WaitForAnswer = 4006,
        /// A part of an answer with checksums.
        Checked = 4007,
    }
}

/// The action of an [`Status::Attention`] that brings the answer of an earlier request.
pub const ASYNC_ANSWER: u32 = 5008;

numbers! {
    /// Why a request failed.
    ErrorCode: u32 {
        /// An argument is not valid.
        ArgInvalid = 3000,
        /// An argument is missing.
        ArgMissing = 3001,
        /// An argument is too long.
        ArgTooLong = 3002,
        /// Another client has the file open.
        FileLocked = 3003,
        /// No file is open under this handle.
        FileNotOpen = 3004,
        /// The file system refuses.
        FileSystem = 3005,
        /// The request is not known, or not allowed now.
        InvalidRequest = 3006,
        /// An I/O error.
        Io = 3007,
        /// A limit of the server on memory.
        NoMemory = 3008,
        /// The device is full.
        NoSpace = 3009,
        /// The client may not do this.
        NotAuthorized = 3010,
        /// No such entry.
        NotFound = 3011,
        /// A fault of the server.
        Server = 3012,
        /// The server does not do this.
        Unsupported = 3013,
        /// No server has it, or it cannot be reached.
        NoServer = 3014,
        /// The entry is not a file.
        NotFile = 3015,
        /// The entry is a directory.
        IsDirectory = 3016,
        /// The request was cancelled.
        Cancelled = 3017,
        /// The entry exists already, or a directory is not empty.
        Exists = 3018,
        /// Bytes do not have their checksum.
        Checksum = 3019,
        /// The same is being done already.
        InProgress = 3020,
        /// A quota is used up.
        OverQuota = 3021,
        /// The signature of a request is wrong.
        Signature = 3022,
        /// A message cannot be decrypted.
        Decrypt = 3023,
        /// The server is too busy.
        Overloaded = 3024,
        /// The file system is read-only.
        ReadOnly = 3025,
        /// The payload does not have the form of its request.
        BadPayload = 3026,
        /// No such attribute.
        NoAttribute = 3027,
        /// The request must come over TLS.
        TlsRequired = 3028,
        /// No more copies can be made.
        NoReplicas = 3029,
        /// The credential is not accepted.
        AuthFailed = 3030,
        /// The request contradicts itself.
        Impossible = 3031,
        /// The request contradicts the state of the entry.
        Conflict = 3032,
        /// Too many pages are damaged.
        TooManyErrors = 3033,
        /// It took too long.
        TimedOut = 3034,
        /// A time that was agreed has passed.
        TimerExpired = 3035,
    }
}

numbers! {
    /// What a query asks for.
    QueryKind: u16 {
        /// Statistics of the server.
        Statistics = 1,
        /// The state of a request to prepare files.
        Prepare = 2,
        /// The checksum of a file.
        Checksum = 3,
        /// Facts of a file as attributes.
        Attributes = 4,
        /// Space below a path.
        Space = 5,
        /// The checksum of a file, cancelled.
        CancelChecksum = 6,
        /// Settings of the server.
        Configuration = 7,
        /// The state of the file's session.
        Visa = 8,
        /// Facts of a file, of the server's own choice.
        FileInfo = 9,
        /// Facts of a file system, of the server's own choice.
        FileSystemInfo = 10,
        /// Text for a plug-in of the server.
        Opaque = 16,
        /// Text about a path, for a plug-in of the server.
        OpaqueOfPath = 32,
        /// Text about an open file, for a plug-in of the server.
        OpaqueOfFile = 64,
    }
}

/// Version 5.1.1 of the protocol: all of version 5 but cloning.
pub const VERSION: u32 = 0x511;

/// Flags of a request for the protocol.
pub mod protocol_flags {
    /// The client wants the list of requests that must be signed.
    pub const SECURITY_REQUIREMENTS: u8 = 1;
    /// The client can speak TLS.
    pub const ABLE_TLS: u8 = 2;
    /// The client speaks TLS only.
    pub const WANT_TLS: u8 = 4;
    /// The client wants to know where it may bind further connections.
    pub const BIND_INTERFACES: u8 = 8;
}

/// What an answer to a request for the protocol says about the server.
pub mod server_flags {
    /// It has files.
    pub const IS_SERVER: u32 = 1;
    /// It redirects to servers.
    pub const IS_MANAGER: u32 = 2;
    /// It removes files that were not closed, if the client wants that.
    pub const PERSIST_ON_CLOSE: u32 = 0x10_0000;
    /// Data streams go over TLS.
    pub const TLS_DATA: u32 = 0x100_0000;
    /// The login goes over TLS.
    pub const TLS_LOGIN: u32 = 0x400_0000;
    /// The session goes over TLS after the login.
    pub const TLS_SESSION: u32 = 0x800_0000;
    /// Third-party copies go over TLS.
    pub const TLS_COPY: u32 = 0x1000_0000;
    /// TLS begins behind this answer.
    pub const GO_TO_TLS: u32 = 0x4000_0000;
    /// It can speak TLS.
    pub const HAVE_TLS: u32 = 0x8000_0000;
}

/// Options of an open.
pub mod open_options {
    /// Replaces the file.
    pub const DELETE: u16 = 0x02;
    /// Opens it although others have it open.
    pub const FORCE: u16 = 0x04;
    /// Makes the file; it must not exist.
    pub const NEW: u16 = 0x08;
    /// For reading.
    pub const READ: u16 = 0x10;
    /// For reading and writing.
    pub const UPDATE: u16 = 0x20;
    /// The answer may come later.
    pub const ASYNC: u16 = 0x40;
    /// Makes missing directories above the file.
    pub const MAKE_PATH: u16 = 0x100;
    /// For writing at its end.
    pub const APPEND: u16 = 0x200;
    /// The answer has the facts of the file.
    pub const RETURN_STAT: u16 = 0x400;
    /// Removes the file unless it is closed.
    pub const PERSIST_ON_CLOSE: u16 = 0x1000;
    /// For writing.
    pub const WRITE: u16 = 0x8000;
}

/// Options of a listing.
pub mod list_options {
    /// With the facts of each entry.
    pub const STAT: u8 = 2;
    /// With the checksum of each entry, and its facts.
    pub const CHECKSUM: u8 = 4;
}

/// Options of a request to prepare files.
pub mod prepare_options {
    /// Cancels an earlier request.
    pub const CANCEL: u8 = 1;
    /// Brings the files from tape.
    pub const STAGE: u8 = 8;
    /// In the second field of options: the files are no longer needed on disk.
    pub const EVICT: u16 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back() {
        assert_eq!(RequestCode::from_number(3032), Some(RequestCode::Clone));
        assert_eq!(RequestCode::from_number(3033), None);
        assert_eq!(RequestCode::ALL.len(), 33);
        assert!(RequestCode::ALL.iter().all(|code| RequestCode::from_number(code.number()) == Some(*code)));
        assert_eq!((ErrorCode::ALL.len(), ErrorCode::from_number(3035)), (36, Some(ErrorCode::TimerExpired)));
        assert_eq!(Status::from_number(4007), Some(Status::Checked));
    }
}
