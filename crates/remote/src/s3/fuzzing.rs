//! Listings of S3 servers as a fuzz target; see [`crate::fuzzing`].

use parking_lot::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path;

use super::listing::{PathlessKeys, list, placeholder, without_pathless};

/// The last page of a listing.
const LAST: &[u8] = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";

/// A server that answers its first request with these bytes, and all others with an empty page.
#[derive(Debug)]
struct Server(Mutex<Option<Vec<u8>>>);

impl HttpConnector for Server {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let page = self.0.lock().take();
        Ok(HttpClient::new(Server(Mutex::new(page))))
    }
}

#[async_trait]
impl HttpService for Server {
    async fn call(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let page = self.0.lock().take();
        let mut response = HttpResponse::new(HttpResponseBody::from(Bytes::from_static(LAST)));
        if let Some(page) = page {
            let (body, pathless) = without_pathless(&page).unwrap_or((page, PathlessKeys::default()));
            response.extensions_mut().insert(pathless);
            *response.body_mut() = HttpResponseBody::from(Bytes::from(body));
        }
        Ok(response)
    }
}

/// Reads a page of the listing of `d/`.
pub fn s3_listing(bytes: &[u8]) {
    let dir = Path::from("d");
    if let Some((kept, PathlessKeys(pathless))) = without_pathless(bytes) {
        assert!(kept.len() < bytes.len() && !pathless.is_empty());
        assert_eq!(without_pathless(&kept), None, "what was taken out is still there");
        for (name, facts) in pathless.iter().filter_map(|key| placeholder(key, &dir)) {
            assert!(name.as_bytes().starts_with(b"?") && facts.is_err());
        }
    }
    let builder = AmazonS3Builder::new().with_bucket_name("b").with_region("r").with_skip_signature(true);
    let server = Server(Mutex::new(Some(bytes.to_vec())));
    let Ok(store) = builder.with_http_connector(server).build() else { return };
    if let Ok(listing) = list(&store, &dir, true) {
        assert!(listing.objects.iter().all(|meta| meta.location != dir), "a directory is in itself");
    }
}
