//! The text below the list of commands in the help.

pub const AFTER: &str = "\
LOCATORS
  lh://HOST[:PORT]/EXPORT/PATH   a file or directory on a node   lh://HOST/   the exports of a node
  lh://HOST/null:, zero:[SIZE]   memory of a node: discards everything, sends zeros
  PATH, null:, zero:[SIZE], -    a file or directory, memory, or stdin and stdout, on this host
  [USER@]HOST:PATH               a file or directory over ssh, on a host without a node
  https, http, davs, dav://HOST/PATH   a WebDAV or HTTP server      s3://BUCKET/KEY   an S3 server
  root, roots://HOST//PATH             an XRootD server

EXIT STATUS
  0 done   1 failed: nothing or only a part has arrived   2 usage
  3 partial: the receipt names what is missing   4 refused (key, identity, policy)
  5 peer or path unreachable   6 storage (full, quota, permission, I/O)   7 integrity
  8 version or protocol   70 a bug in Longhaul   130 interrupted, resumable

ENVIRONMENT
  LONGHAUL_KEY    access keys, separated by commas; longhaul selects the key of the node
  LONGHAUL_STATE  the state directory (identity, grants, pinned nodes)
  BEARER_TOKEN, BEARER_TOKEN_FILE, AWS_*   credentials for WebDAV and S3 servers";
