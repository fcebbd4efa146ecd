//! The text below the list of commands in the help.

pub const AFTER: &str = "\
LOCATORS
  lh://HOST[:PORT]/EXPORT/PATH   a path on a node       lh://HOST/            its exports
  lh://HOST/null:, zero:[SIZE]   a node's memory ends   PATH, null:, zero:[SIZE], -   here
  [USER@]HOST:PATH               a path over ssh, with no node running there
  https, http, davs, dav://HOST/PATH   a WebDAV or HTTP server      s3://BUCKET/KEY   an S3 server

EXIT STATUS
  0 done   1 failed, nothing or not all arrived   2 usage   3 partial (named in the receipt)
  4 refused (key, identity, policy)   5 peer or path unreachable   6 storage (full, quota, permission, I/O)
  7 integrity   8 version or protocol   130 interrupted, resumable   70 a bug of ours

ENVIRONMENT
  LONGHAUL_KEY    access keys, separated by commas; the one for the node's identity is used
  LONGHAUL_STATE  the state directory (identity, grants, pinned nodes)
  BEARER_TOKEN, BEARER_TOKEN_FILE, AWS_*   who you are on WebDAV and on S3 servers";
