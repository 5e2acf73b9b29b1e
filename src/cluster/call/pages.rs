//! Lists, page by page: begun again where the server forgot its place, and bounded.

use super::cause::{Cause, said};
use super::{CallError, Patience, call};
use kube::Api;
use kube::api::{ListParams, ObjectList};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher as _, RandomState};

/// Most pages of one list: more objects than a cluster may hold.
const PAGES: usize = 1_000;

/// How often a list begins anew when the server has forgotten its snapshot (410 Gone).
const RESTARTS: u32 = 2;

/// One object of a list that is not what the API promises.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    /// Its name, as it may be shown; without one its kind of place.
    pub(crate) name: String,
    /// Its labels, whatever they are.
    pub(crate) labels: Value,
    /// What is wrong with it, as it may be shown.
    pub(crate) why: String,
}

/// What was listed: one object that cannot be understood costs none of the others.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    /// What was understood.
    pub(crate) found: Vec<T>,
    /// What was not.
    pub(crate) broken: Vec<Broken>,
}

impl<T> Listed<T> {
    /// All of it, or the first object that could not be understood: where each of them matters to the others.
    pub(crate) fn whole(self, doing: &str) -> Result<Vec<T>, CallError> {
        match self.broken.into_iter().next() {
            None => Ok(self.found),
            Some(Broken { name, why, .. }) => Err(CallError {
                doing: doing.to_owned(),
                cause: Cause::Broken { name, said: why },
            }),
        }
    }
}

#[derive(Debug, Clone)]
enum Item<K> {
    Good(Box<K>),
    Bad(Broken),
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Item<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(from)?;
        Ok(match K::deserialize(&object) {
            Ok(good) => Self::Good(Box::new(good)),
            Err(error) => Self::Bad(Broken {
                name: match object["metadata"]["name"].as_str() {
                    Some(name) => said(name),
                    None => "(an object without a name)".to_owned(),
                },
                labels: object["metadata"]["labels"].clone(),
                why: said(&error.to_string()),
            }),
        })
    }
}

/// Lists page by page: few round trips for large namespaces, and a bound on what is held before `reduce` takes what
/// matters. Begins anew when the server has forgotten where it was (410 Gone), and ends where a list does not.
pub(crate) async fn pages<K, T>(
    doing: &str,
    patience: Patience,
    api: &Api<K>,
    first: ListParams,
    reduce: &mut (dyn FnMut(K) -> T + Send),
) -> Result<Listed<T>, CallError>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
    T: Send,
{
    let mut restarts = 0;
    loop {
        match to_the_end(doing, patience, api, first.clone(), reduce).await {
            Err(CallError {
                cause: Cause::Gone, ..
            }) if restarts < RESTARTS => restarts += 1,
            other => return other,
        }
    }
}

async fn to_the_end<K, T>(
    doing: &str,
    patience: Patience,
    api: &Api<K>,
    mut page: ListParams,
    reduce: &mut (dyn FnMut(K) -> T + Send),
) -> Result<Listed<T>, CallError>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
    T: Send,
{
    let client = api.clone().into_client();
    let path = Request::new(api.resource_url());
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    // A token may be long; what it hashes to tells it from the others.
    let (hash, mut seen) = (RandomState::new(), HashSet::new());
    for read in 1.. {
        let list: ObjectList<Item<K>> = call(doing, patience, || async {
            let request = path.list(&page).map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        })
        .await?;
        for item in list.items {
            match item {
                Item::Good(object) => found.push(reduce(*object)),
                Item::Bad(object) => broken.push(object),
            }
        }
        let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) else {
            break;
        };
        let again = !seen.insert(hash.hash_one(&token));
        if again || read >= PAGES {
            return Err(CallError {
                doing: doing.to_owned(),
                cause: Cause::Endless { pages: read, again },
            });
        }
        page = page.continue_token(&token);
    }
    Ok(Listed { found, broken })
}
