//! The key to an S3 server. It is read again when the server refuses it, because keys of sessions expire during long transfers.
//!
//! Does not know: where keys are stored.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use parking_lot::Mutex;

use super::KeySource;

/// The key that requests are signed with.
pub(super) struct Keys {
    source: Arc<KeySource>,
    now: Mutex<Arc<AwsCredential>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

fn read_key(source: &KeySource) -> Result<Option<AwsCredential>, String> {
    let keys = source()?;
    Ok(keys.map(|keys| AwsCredential { key_id: keys.key, secret_key: keys.secret, token: keys.token }))
}

impl Keys {
    /// Reads the key; `None` for anonymous requests.
    ///
    /// # Errors
    /// The source of the key fails.
    pub fn new(source: &Arc<KeySource>) -> Result<Option<Arc<Keys>>, String> {
        let key = read_key(&**source)?;
        Ok(key.map(|key| Arc::new(Keys { source: Arc::clone(source), now: Mutex::new(Arc::new(key)) })))
    }

    pub fn now(&self) -> Arc<AwsCredential> {
        Arc::clone(&self.now.lock())
    }

    /// Whether there is a newer key than the one that was refused. Of several callers at once, one reads it.
    pub fn renew(&self, refused: &AwsCredential) -> bool {
        let mut now = self.now.lock();
        if **now == *refused
            && let Ok(Some(key)) = read_key(&*self.source)
        {
            *now = Arc::new(key);
        }
        **now != *refused
    }
}

#[async_trait]
impl CredentialProvider for Keys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Ok(self.now())
    }
}
