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

use super::listing::{Nameless, list, sifted, stand_in};

/// The last page of a listing.
const LAST: &[u8] = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";

/// A server that answers its first question with these bytes, and all others with an empty page.
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
            let (body, nameless) = sifted(&page).unwrap_or((page, Nameless::default()));
            response.extensions_mut().insert(nameless);
            *response.body_mut() = HttpResponseBody::from(Bytes::from(body));
        }
        Ok(response)
    }
}

/// A page of the listing of `d/`.
pub fn s3_listing(bytes: &[u8]) {
    let dir = Path::from("d");
    if let Some((kept, Nameless(nameless))) = sifted(bytes) {
        assert!(kept.len() < bytes.len() && !nameless.is_empty());
        assert_eq!(sifted(&kept), None, "what was taken out is still there");
        for (name, facts) in nameless.iter().filter_map(|key| stand_in(key, &dir)) {
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
