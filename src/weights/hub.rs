//! The Hugging Face hub and its cache, laid out on disk as every other client of the hub lays it out.
//!
//! The cache is asked first, without a network: `refs/<revision>` holds a commit, `snapshots/<commit>/` its
//! files. Only what is missing is downloaded (resumed where an earlier download broke off).

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;

use super::ModelFiles;
use super::folder::{INDEX, PICKLED, SINGLE, only_pickled, shards};
use crate::error::{Error, Result};

/// The public hub.
const ENDPOINT: &str = "https://huggingface.co";
/// How long a first connection may take before the hub counts as out of reach.
const CONNECT: Duration = Duration::from_secs(5);
/// Attempts to resume a download that breaks off.
const RETRIES: usize = 3;

/// Where models are downloaded from and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// Address of the hub.
    pub endpoint: String,
    /// Folder of the cache (`models--org--name/` lie in it).
    pub cache: PathBuf,
    /// Access token for gated models.
    pub token: Option<String>,
    /// True: never use the network.
    pub offline: bool,
    /// Draw a progress bar on stderr while downloading.
    pub progress_bar: bool,
}

impl Default for Hub {
    fn default() -> Self {
        Self::from_environment(&|name| std::env::var(name).ok())
    }
}

impl Hub {
    /// Settings from `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE`, as the hub's own
    /// client reads them; `variable` looks one up.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let user_cache = || {
            set("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
        };
        let home = set("HF_HOME")
            .map(PathBuf::from)
            .unwrap_or_else(|| user_cache().unwrap_or_else(|| ".cache".into()).join("huggingface"));
        let cache = set("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let token = set("HF_TOKEN").or_else(|| std::fs::read_to_string(home.join("token")).ok());
        let offline = set("HF_HUB_OFFLINE")
            .is_some_and(|value| matches!(value.to_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        Self {
            endpoint: set("HF_ENDPOINT")
                .unwrap_or_else(|| ENDPOINT.to_owned())
                .trim_end_matches('/')
                .to_owned(),
            cache,
            token: token.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()),
            offline,
            progress_bar: true,
        }
    }

    /// The files of model `id` at `revision`, from the cache or downloaded into it.
    ///
    /// `progress` is told in a line what is about to be downloaded.
    ///
    /// # Errors
    /// [`Error::Model`] that names the file, the places looked in and the ways out.
    pub fn fetch(&self, id: &str, revision: &str, progress: &dyn Fn(&str)) -> Result<ModelFiles> {
        let cached = CachedModel::new(self, id, revision);
        if let Some(files) = cached.complete() {
            return Ok(files);
        }
        let missing = cached.first_missing();
        if self.offline {
            let why = "the network is off (--offline or HF_HUB_OFFLINE)";
            return Err(self.unreachable(id, &missing, &cached, why));
        }
        self.connect().map_err(|why| self.unreachable(id, &missing, &cached, &why))?;
        progress(&format!(
            "downloading {id} ({revision}) from {} to {}",
            self.endpoint,
            self.cache.display()
        ));
        let files = self.download(id, revision)?;
        let folder = files.config.parent();
        let of_one_commit =
            files.weights.iter().chain([&files.tokenizer]).all(|file| file.parent() == folder);
        if !of_one_commit {
            return Err(Error::model(
                id,
                format!("the hub's {revision} moved to another commit during the download; run it again"),
            ));
        }
        Ok(files)
    }

    /// `tokenizer.json` of `id` at `revision` if the cache has it; uses no network.
    pub fn cached_tokenizer(&self, id: &str, revision: &str) -> Option<PathBuf> {
        CachedModel::new(self, id, revision).file("tokenizer.json")
    }

    /// `config.json` of `id` at `revision`, from the cache or downloaded.
    ///
    /// # Errors
    /// As [`Hub::fetch`].
    pub fn fetch_config(&self, id: &str, revision: &str) -> Result<PathBuf> {
        let cached = CachedModel::new(self, id, revision);
        if let Some(config) = cached.file("config.json") {
            return Ok(config);
        }
        if self.offline {
            return Err(self.unreachable(id, "config.json", &cached, "the network is off"));
        }
        self.connect().map_err(|why| self.unreachable(id, "config.json", &cached, &why))?;
        self.get(&self.repository(id, revision)?, id, "config.json")
    }

    fn download(&self, id: &str, revision: &str) -> Result<ModelFiles> {
        let repository = self.repository(id, revision)?;
        let get = |file: &str| self.get(&repository, id, file);
        let config = get("config.json")?;
        let tokenizer = get("tokenizer.json")?;
        let weights = match self.try_get(&repository, id, SINGLE)? {
            Some(single) => vec![single],
            None => match self.try_get(&repository, id, INDEX)? {
                Some(index) => shards(&index)?.iter().map(|shard| get(shard)).collect::<Result<_>>()?,
                None => {
                    let pickle = repository.url(PICKLED);
                    let pickled = self.client()?.metadata(&pickle).is_ok();
                    return Err(if pickled {
                        only_pickled(Path::new(&pickle))
                    } else {
                        Error::model(id, format!("the hub has neither {SINGLE} nor {INDEX} at {revision}"))
                    });
                }
            },
        };
        let revision = commit_of(&config);
        Ok(ModelFiles { config, weights, tokenizer, revision })
    }

    fn client(&self) -> Result<hf_hub::api::sync::Api> {
        ApiBuilder::from_cache(Cache::new(self.cache.clone()))
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .with_retries(RETRIES)
            .with_progress(false)
            .build()
            .map_err(|e| Error::Device(format!("the hub's client does not start: {e}")))
    }

    fn repository(&self, id: &str, revision: &str) -> Result<ApiRepo> {
        Ok(self.client()?.repo(Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned())))
    }

    /// Downloads `file`, which has to be there.
    fn get(&self, repository: &ApiRepo, id: &str, file: &str) -> Result<PathBuf> {
        self.try_get(repository, id, file)?
            .ok_or_else(|| Error::model(id, format!("the hub has no {file} ({})", repository.url(file))))
    }

    /// Downloads `file`; `None` where the hub has none.
    fn try_get(&self, repository: &ApiRepo, id: &str, file: &str) -> Result<Option<PathBuf>> {
        let downloaded = if self.progress_bar {
            repository.download_with_progress(file, ProgressBar::new(0))
        } else {
            repository.download_with_progress(file, ())
        };
        match downloaded {
            Ok(path) => Ok(Some(path)),
            Err(error) => match status(&error) {
                Some(404) => Ok(None),
                Some(401 | 403) => Err(Error::model(
                    id,
                    format!(
                        "the hub refuses {} ({error}): the model does not exist or needs access; check the name, \
                         or set HF_TOKEN to a token that may read it",
                        repository.url(file)
                    ),
                )),
                _ => Err(Error::model(
                    id,
                    format!(
                        "downloading {} failed: {error}; run again to resume where it broke off",
                        repository.url(file)
                    ),
                )),
            },
        }
    }

    /// Finds out within seconds whether the hub can be reached, since the client itself has no time limit.
    fn connect(&self) -> Result<(), String> {
        let proxied = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        if proxied {
            return Ok(()); // the proxy resolves names and connects; ours to reach is only the proxy
        }
        let (scheme, rest) = self.endpoint.split_once("://").unwrap_or(("https", &self.endpoint));
        let host = rest.split('/').next().unwrap_or(rest);
        let address = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            host.to_owned()
        } else {
            format!("{host}:{}", if scheme == "http" { 80 } else { 443 })
        };
        let addresses =
            address.to_socket_addrs().map_err(|e| format!("{} cannot be found: {e}", self.endpoint))?;
        let mut last = "no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(_) => return Ok(()),
                Err(e) => last = e.to_string(),
            }
        }
        Err(format!("{} cannot be reached: {last}", self.endpoint))
    }

    fn unreachable(&self, id: &str, file: &str, cached: &CachedModel, why: &str) -> Error {
        Error::model(
            id,
            format!(
                "{file} is not at hand: it is not in the cache ({}) and {why}; use --weights random to time the \
                 exact architecture without a download, or give --model a folder with config.json, \
                 *.safetensors and tokenizer.json",
                cached.folder.display()
            ),
        )
    }
}

/// One model's corner of the cache.
struct CachedModel {
    folder: PathBuf,
    /// The commit that `revision` stands for, where the cache knows.
    commit: Option<String>,
}

impl CachedModel {
    fn new(hub: &Hub, id: &str, revision: &str) -> Self {
        let repository = Repo::model(id.to_owned());
        let folder = hub.cache.join(repository.folder_name());
        let named = std::fs::read_to_string(folder.join("refs").join(revision)).ok();
        let commit = match named {
            Some(commit) => Some(commit.trim().to_owned()),
            // A full commit id names its snapshot itself; no ref need exist for it.
            None => folder.join("snapshots").join(revision).is_dir().then(|| revision.to_owned()),
        };
        Self { folder, commit }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join("snapshots").join(self.commit.as_ref()?).join(name);
        path.is_file().then_some(path)
    }

    fn weights(&self) -> Option<Vec<PathBuf>> {
        if let Some(single) = self.file(SINGLE) {
            return Some(vec![single]);
        }
        shards(&self.file(INDEX)?).ok()?.iter().map(|shard| self.file(shard)).collect()
    }

    /// Every file, if the cache has them all.
    fn complete(&self) -> Option<ModelFiles> {
        Some(ModelFiles {
            config: self.file("config.json")?,
            weights: self.weights()?,
            tokenizer: self.file("tokenizer.json")?,
            revision: self.commit.clone(),
        })
    }

    fn first_missing(&self) -> String {
        let absent = |name: &&str| self.file(name).is_none();
        ["config.json", "tokenizer.json"].into_iter().find(absent).unwrap_or(SINGLE).to_owned()
    }
}

/// The commit whose snapshot holds `path`.
fn commit_of(path: &Path) -> Option<String> {
    path.parent()?.file_name()?.to_str().map(str::to_owned)
}

/// The HTTP status that the hub answered with, if it is that which failed.
fn status(error: &ApiError) -> Option<u16> {
    let ApiError::RequestError(request) = error else { return None };
    // The client does not export its HTTP crate's types; their message ends in the status.
    request.to_string().rsplit(' ').next()?.parse().ok()
}
